from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from grpc import RpcError, StatusCode

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import array_from_raw, datatype
from nnhal.types import NO_DEADLINE
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.v2.grpc.statuses import STATUS
from tests.support.v2 import FakeModel, call, floats, in_bytes, infer, raw_request
from tests.support.v2_front import Served, serving

CONTENTS: dict[str, list[object]] = {
    "bool_contents": [True, False],
    "int_contents": [-1, 100],
    "int64_contents": [-(2**63), 2**63 - 1],
    "uint_contents": [0, 200],
    "uint64_contents": [0, 2**64 - 1],
    "fp32_contents": [0.5, -1.0],
    "fp64_contents": [0.1, -1.0],
    "bytes_contents": [b"a", b""],
}


def refused(served: Served, request: wire.ModelInferRequest) -> str:
    """The message of the refusal, which must be INVALID_ARGUMENT."""
    with pytest.raises(RpcError) as got:
        infer(served.channel, request)
    assert got.value.code() == StatusCode.INVALID_ARGUMENT
    assert served.model.requests == []
    return got.value.details() or ""


def outputs(response: wire.ModelInferResponse) -> dict[str, Array]:
    return {
        tensor.name: array_from_raw(datatype(tensor.datatype), tuple(tensor.shape), raw)
        for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def test_a_large_tensor_passes_through(served: Served) -> None:
    array = np.arange(4 << 20, dtype=np.float32)
    assert np.array_equal(outputs(infer(served.channel, raw_request(x=array, y=floats(1))))["x"], array)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *[("BOOL", "bool_contents"), ("INT8", "int_contents"), ("INT16", "int_contents"), ("INT32", "int_contents")],
        *[("INT64", "int64_contents"), ("UINT8", "uint_contents"), ("UINT16", "uint_contents")],
        *[("UINT32", "uint_contents"), ("UINT64", "uint64_contents"), ("FP32", "fp32_contents")],
        *[("FP64", "fp64_contents"), ("BYTES", "bytes_contents")],
    ],
)
def test_elements_may_be_in_the_message(served: Served, name: str, field: str) -> None:
    request = wire.ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="x", datatype=name, shape=[2, 1])
    getattr(tensor.contents, field).extend(CONTENTS[field])
    again = outputs(infer(served.channel, request))["x"]
    assert again.dtype == datatype(name).dtype
    assert again.tolist() == [[element] for element in CONTENTS[field]]


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("FP16", "fp32_contents", "FP16 has no field in contents; expected its elements in raw_input_contents"),
        ("BF16", "fp32_contents", "BF16 has no field in contents"),
        ("FP32", "fp64_contents", "contents has fp64_contents, expected fp32_contents for FP32"),
        ("INT64", "int64_contents", "int64_contents has 2 elements, expected 1 for shape [1]"),
        ("FP8", "fp32_contents", "datatype 'FP8' is unknown; expected one of BOOL, "),
    ],
)
def test_elements_in_the_wrong_place_are_refused(served: Served, name: str, field: str, message: str) -> None:
    request = wire.ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="x", datatype=name, shape=[1 if name == "INT64" else 2])
    getattr(tensor.contents, field).extend(CONTENTS[field])
    assert f"input 'x' for model 'echo': {message}" in refused(served, request)


@pytest.mark.parametrize(
    ("name", "field", "value"), [("INT8", "int_contents", 128), ("UINT16", "uint_contents", 65536)]
)
def test_elements_out_of_range_are_refused(served: Served, name: str, field: str, value: int) -> None:
    request = wire.ModelInferRequest(model_name="echo")
    getattr(request.inputs.add(name="x", datatype=name, shape=[2]).contents, field).extend([0, value])
    assert f"{field} has {value}, which {name} cannot hold" in refused(served, request)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("shape", [[0, 2**62, 2**62], [0] * 65])
def test_shapes_that_no_array_has_are_refused(served: Served, raw: bool, shape: list[int]) -> None:
    request = wire.ModelInferRequest(model_name="echo", raw_input_contents=[b""] if raw else [])
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    assert "has too many axes for an array" in refused(served, request)


def test_each_input_needs_its_raw_contents(served: Served) -> None:
    request = raw_request(x=floats(1), y=floats(2))
    del request.raw_input_contents[1]
    assert "unable to find data for input tensor 'y' for model 'echo'" in refused(served, request)
    request.raw_input_contents.extend([b"", b"", b""])
    request.raw_input_contents[1] = b"1234"
    assert "raw_input_contents has 4 entries, expected 2: one for each input" in refused(served, request)


def test_raw_contents_and_others_do_not_go_together(served: Served) -> None:
    request = raw_request(x=floats(1))
    request.inputs[0].contents.fp32_contents.append(1)
    assert "contents field must not be specified when using raw_input_contents" in refused(served, request)


def test_raw_contents_must_fit_the_shape(served: Served) -> None:
    request = raw_request(x=floats(1, 2))
    request.inputs[0].shape[:] = [3]
    assert "got 8 bytes, expected 12 for FP32 of shape [3]" in refused(served, request)
    request.inputs[0].shape[:] = [-2]
    assert "shape [-2] has a negative axis" in refused(served, request)


def test_no_tensor_is_named_twice(served: Served) -> None:
    request = raw_request(x=floats(1))
    request.inputs.append(request.inputs[0])
    request.raw_input_contents.append(b"1234")
    assert "input 'x' is repeated" in refused(served, request)
    request = raw_request(x=floats(1))
    request.outputs.add(name="x")
    request.outputs.add(name="x")
    assert "one is repeated" in refused(served, request)


def test_outputs_come_in_the_order_that_was_asked_for(served: Served) -> None:
    request = raw_request(x=floats(1), y=floats(2), z=floats(3))
    request.outputs.add(name="z")
    request.outputs.add(name="x")
    assert [tensor.name for tensor in infer(served.channel, request).outputs] == ["z", "x"]


def test_an_output_that_the_model_has_not_is_refused(served: Served) -> None:
    request = raw_request(x=floats(1))
    request.outputs.add(name="other")
    with pytest.raises(RpcError, match="unexpected inference output 'other' for model 'echo'") as got:
        infer(served.channel, request)
    assert got.value.code() == StatusCode.INVALID_ARGUMENT
    assert served.model.released == 1


def test_parameters_reach_the_model(served: Served) -> None:
    request = raw_request(x=floats(1))
    request.id = "7"
    for key, value in {"sequence_id": 5, "priority": 2, "timeout": 1500, "mine": -1}.items():
        request.parameters[key].int64_param = value
    request.parameters["big"].uint64_param = 2**64 - 1
    request.parameters["ratio"].double_param = 0.5
    request.parameters["word"].string_param = "a"
    request.parameters["sequence_start"].bool_param = True
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    assert infer(served.channel, request).id == "7"
    got = served.model.requests[0]
    assert (got.id, got.priority, got.timeout_ns) == ("7", 2, 1_500_000)
    assert got.parameters == {
        "sequence_id": 5,
        "sequence_start": True,
        "mine": -1,
        "big": 2**64 - 1,
        "ratio": 0.5,
        "word": "a",
    }


@pytest.mark.parametrize(
    ("key", "parameter", "message"),
    [
        (
            "priority",
            wire.InferParameter(string_param="1"),
            "invalid value type for 'priority' parameter, expected int64",
        ),
        ("timeout", wire.InferParameter(int64_param=-1), "parameter 'timeout' is -1, expected 0 or more"),
        (
            "sequence_end",
            wire.InferParameter(int64_param=1),
            "'sequence_end' parameter, expected bool_param, got int64",
        ),
        ("triton_other", wire.InferParameter(bool_param=True), "names that begin with 'triton_' are reserved"),
        ("mine", wire.InferParameter(), "parameter 'mine' has no value"),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(
    served: Served, key: str, parameter: wire.InferParameter, message: str
) -> None:
    request = raw_request(x=floats(1))
    request.parameters[key].CopyFrom(parameter)
    assert message in refused(served, request)


def test_the_models_own_parameters_come_back(short_path: Path) -> None:
    model = FakeModel(parameters={"nnhal_devices": "cpu:3", "nnhal_bytes_copied": 0, "ratio": 0.5, "fallback": False})
    with serving(short_path, model) as served:
        given = infer(served.channel, raw_request(x=floats(1))).parameters
    assert given["nnhal_devices"].string_param == "cpu:3"
    assert given["nnhal_bytes_copied"].WhichOneof("parameter_choice") == "int64_param"
    assert given["ratio"].double_param == 0.5
    assert given["fallback"].WhichOneof("parameter_choice") == "bool_param"


@pytest.mark.parametrize(
    ("value", "message"), [(-1, "is -1, expected 0 or more"), ("a", "is 'a', expected an integer")]
)
def test_classification_wants_a_count(served: Served, value: int | str, message: str) -> None:
    request = raw_request(x=floats(1))
    parameter = request.outputs.add(name="x").parameters["classification"]
    if isinstance(value, int):
        parameter.int64_param = value
    else:
        parameter.string_param = value
    assert f"output 'x': parameter 'classification' {message}" in refused(served, request)


@pytest.mark.parametrize("kind", ErrorKind)
def test_each_kind_of_error_has_its_status(short_path: Path, kind: ErrorKind) -> None:
    def fail(request: InferenceRequest) -> dict[str, Array]:
        raise ServingError(kind, "as it is")

    with serving(short_path, FakeModel(fail)) as served, pytest.raises(RpcError) as got:
        infer(served.channel, raw_request(x=floats(1)))
    assert (got.value.code(), got.value.details()) == (STATUS[kind], "as it is")


def test_a_defect_is_internal_and_says_nothing(short_path: Path) -> None:
    def fail(request: InferenceRequest) -> dict[str, Array]:
        raise OSError("/secret/path")

    with serving(short_path, FakeModel(fail)) as served, pytest.raises(RpcError) as got:
        infer(served.channel, raw_request(x=floats(1)))
    assert got.value.code() == StatusCode.INTERNAL
    assert got.value.details() == "the call failed; the log of the server says why"


def test_a_long_name_does_not_make_an_error_unreadable(served: Served) -> None:
    with pytest.raises(RpcError) as got:
        infer(served.channel, raw_request("\N{SNOWMAN}" * 100_000, x=floats(1)))
    assert got.value.code() == StatusCode.NOT_FOUND
    assert "Request for unknown model: '\N{SNOWMAN}" in (got.value.details() or "")


def test_bytes_that_are_no_message_are_refused(served: Served) -> None:
    for name in ("ModelInfer", "ModelMetadata"):
        method = in_bytes(served.channel, name)
        with pytest.raises(RpcError) as got:
            method(b"\x0f\xff", timeout=30)
        assert (got.value.code(), got.value.details()) == (
            StatusCode.INVALID_ARGUMENT,
            f"the request is not a valid message of {name}",
        )


def test_the_clients_deadline_reaches_the_model(served: Served) -> None:
    infer(served.channel, raw_request(x=floats(1)), timeout=1000)
    left = served.model.requests[0].deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # gRPC rounds what it sends, upwards.
    assert 900e9 < left < 1100e9


def test_without_a_deadline_there_is_none(served: Served) -> None:
    method = in_bytes(served.channel, "ModelInfer")
    method(raw_request(x=floats(1)).SerializeToString())
    assert served.model.requests[0].deadline_ns == NO_DEADLINE


def test_a_call_that_is_cancelled_cancels_the_request(short_path: Path) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        request.cancellation.on_cancel(cancelled.set)
        begun.set()
        cancelled.wait(30)
        raise ServingError(ErrorKind.CANCELLED, "cancelled")

    with serving(short_path, FakeModel(wait)) as served:
        method = in_bytes(served.channel, "ModelInfer")
        future = method.future(raw_request(x=floats(1)).SerializeToString(), wait_for_ready=True)
        assert begun.wait(30)
        future.cancel()  # type: ignore[no-untyped-call]
        assert cancelled.wait(30)


def test_a_request_that_has_been_answered_is_not_cancelled(served: Served) -> None:
    infer(served.channel, raw_request(x=floats(1)))
    call(served.channel, "ServerLive", wire.ServerLiveRequest())
    assert not served.model.requests[0].cancellation.cancelled
