from __future__ import annotations

import numpy as np
import pytest
from grpc import RpcError, StatusCode

from nnhal.inference import grpc_service_pb2 as wire
from tests.support.v2 import call, floats, infer, raw_request
from tests.support.v2_front import Served

Parameters = dict[str, int | str]
Tensor = wire.ModelInferRequest.InferInputTensor | wire.ModelInferRequest.InferRequestedOutputTensor


def register(served: Served, name: str, byte_size: int = 64) -> None:
    request = wire.SystemSharedMemoryRegisterRequest(name=name, key=f"/{name}", offset=4, byte_size=byte_size)
    call(served.channel, "SystemSharedMemoryRegister", request)


def place(tensor: Tensor, **parameters: int | str) -> None:
    for key, value in parameters.items():
        if isinstance(value, int):
            tensor.parameters[f"shared_memory_{key}"].int64_param = value
        else:
            tensor.parameters[f"shared_memory_{key}"].string_param = value


def refused(served: Served, request: wire.ModelInferRequest) -> tuple[StatusCode, str]:
    with pytest.raises(RpcError) as got:
        infer(served.channel, request)
    return got.value.code(), got.value.details() or ""


def test_inputs_and_outputs_may_lie_in_regions(served: Served) -> None:
    register(served, "a")
    served.memory.write("a", 8, floats(1, 2).tobytes(), "the client")
    request = raw_request(y=floats(5))
    place(request.inputs.add(name="x", datatype="FP32", shape=[2]), region="a", byte_size=8, offset=8)
    for name in ("y", "x"):
        request.outputs.add(name=name)
    place(request.outputs[1], region="a", byte_size=32, offset=32)
    response = infer(served.channel, request)
    assert np.frombuffer(served.memory.read("a", 32, 8, "the client"), np.float32).tolist() == [1, 2]
    # An entry for each output: clients count them, whether they are in shared memory or not.
    assert list(response.raw_output_contents) == [floats(5).tobytes(), b""]
    given = response.outputs[1].parameters
    assert given["shared_memory_region"].string_param == "a"
    assert (given["shared_memory_byte_size"].int64_param, given["shared_memory_offset"].int64_param) == (8, 32)


@pytest.mark.parametrize(
    ("parameters", "code", "message"),
    [
        ({"region": "a"}, StatusCode.INVALID_ARGUMENT, "'shared_memory_region' without 'shared_memory_byte_size'"),
        ({"byte_size": 8}, StatusCode.INVALID_ARGUMENT, "'shared_memory_byte_size' without 'shared_memory_region'"),
        ({"region": 1, "byte_size": 8}, StatusCode.INVALID_ARGUMENT, "'shared_memory_region' is 1, expected a string"),
        ({"region": "a", "byte_size": -1}, StatusCode.INVALID_ARGUMENT, "'shared_memory_byte_size' is -1, expected 0"),
        ({"region": "a", "byte_size": "8"}, StatusCode.INVALID_ARGUMENT, "is '8', expected an integer"),
        ({"region": "a", "byte_size": 4}, StatusCode.INVALID_ARGUMENT, "got 4 bytes, expected 8 for FP32"),
        (
            {"region": "a", "byte_size": 8, "offset": 60},
            StatusCode.INVALID_ARGUMENT,
            "Invalid offset + byte size for shared memory region: 'a'",
        ),
        ({"region": "b", "byte_size": 8}, StatusCode.NOT_FOUND, "Unable to find system shared memory region: 'b'"),
    ],
)
def test_inputs_elsewhere_are_refused(served: Served, parameters: Parameters, code: StatusCode, message: str) -> None:
    register(served, "a")
    request = wire.ModelInferRequest(model_name="echo")
    place(request.inputs.add(name="x", datatype="FP32", shape=[2]), **parameters)
    got = refused(served, request)
    assert got[0] == code
    assert message in got[1]


def test_an_input_in_a_region_has_no_contents(served: Served) -> None:
    register(served, "a")
    request = wire.ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1])
    place(tensor, region="a", byte_size=4)
    tensor.contents.fp32_contents.append(1)
    code, message = refused(served, request)
    assert code == StatusCode.INVALID_ARGUMENT
    assert message == ("unexpected 'content' provided when using shared memory, for input tensor 'x' for model 'echo'")


def test_classes_do_not_go_into_regions(served: Served) -> None:
    request = raw_request(x=floats(1, 2))
    output = request.outputs.add(name="x")
    place(output, region="a", byte_size=4)
    output.parameters["classification"].int64_param = 1
    code, message = refused(served, request)
    assert code == StatusCode.INVALID_ARGUMENT
    assert message == "output 'x' cannot set both 'shared_memory_region' and 'classification'"
