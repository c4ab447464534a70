"""Served models on a real device: their inputs, outputs, errors and statistics."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import TransportError
from nnhal.memory import mapped_regions
from nnhal.remote import RemoteDevice
from nnhal.types import NO_DEADLINE
from nnhal_frontends import import_model
from nnhal_service.partition import Options, Pin
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import (
    Batching,
    Cancellation,
    ErrorKind,
    Executed,
    FailureReason,
    Finished,
    InferenceRequest,
    ServedModel,
    ServingConfig,
    ServingError,
)
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.requests.client_memory import to_array
from tests.service.serving.conftest import Serve
from tests.support.onnx_models import onnx_model, random
from tests.support.processes import device_process
from tests.support.serving import shared_loop
from tests.support.waiting import stop, wait_for_death, wait_until

HOUR_NS = 3600 * 10**9


def relu(shape: Sequence[int | str] = (2, 3), element_type: type[np.generic] = np.float32) -> onnx.ModelProto:
    """y = relu(x)."""
    return onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"], element_type=element_type)


def infer(served: ServedModel, **inputs: Array) -> dict[str, Array]:
    """Copies of the outputs."""
    with served.infer_and_wait(InferenceRequest(inputs)) as response:
        return {name: to_array(tensor).copy() for name, tensor in response.outputs.items()}


def refused(served: ServedModel, request: InferenceRequest) -> ServingError:
    with pytest.raises(ServingError) as error:
        served.infer_and_wait(request)
    return error.value


def test_a_response_has_the_outputs_and_says_where_they_are_from(serve: Serve) -> None:
    served = serve(relu())
    x = random(2, 3)
    with served.infer_and_wait(InferenceRequest({"x": x}, arrived_ns=time.monotonic_ns())) as response:
        np.testing.assert_array_equal(response.outputs["y"], np.maximum(x, 0))
        assert (response.model_name, response.model_version) == ("m", "1")
        assert response.parameters == {
            "nnhal_devices": "cpu_acc:1",
            "nnhal_bytes_copied": 2 * x.nbytes,
            "nnhal_fell_back": False,
        }
        assert list(response.timing) == sorted(response.timing) and response.timing.arrived_ns > 0


def test_what_was_measured_is_what_was_planned(serve: Serve) -> None:
    with serve(relu(), measure=True).infer_and_wait(InferenceRequest({"x": random(2, 3)})) as response:
        assert response.parameters["nnhal_devices"] == "cpu_acc:1"
        assert response.parameters["nnhal_bytes_copied"] == 48


def test_it_describes_its_inputs_and_outputs(serve: Serve) -> None:
    served = serve(relu(("n", 3)), ServingConfig(max_batch_size=4))
    (x,), (y,) = served.inputs, served.outputs
    assert (x.name, x.datatype, x.shape) == ("x", "FP32", (-1, 3))
    assert (y.name, y.datatype, y.shape) == ("y", "FP32", (-1, 3))


def test_open_axes_come_in_any_length(serve: Serve) -> None:
    served = serve(relu(("n", "m")))
    for shape in ((1, 1), (7, 2), (300, 40), (1, 1), (2, 7)):
        x = random(*shape)
        np.testing.assert_array_equal(infer(served, x=x)["y"], np.maximum(x, 0))


def test_an_output_gets_as_much_memory_as_it_needs(serve: Serve) -> None:
    served = serve(onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [5000]}, ["y"]))
    for x in (np.zeros(5000), np.ones(5000), np.arange(5000) % 2):
        found = infer(served, x=x.astype(np.float32))["y"]
        np.testing.assert_array_equal(found, np.stack(np.nonzero(x)))
        assert found.dtype == np.int64


@pytest.mark.parametrize("element_type", [np.float16, np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_elements_are_the_models_own(serve: Serve, element_type: type[np.generic]) -> None:
    model = onnx_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": [4]}, ["y"], element_type=element_type)
    y = infer(serve(model), x=np.arange(4).astype(element_type))["y"]
    assert y.dtype == element_type
    np.testing.assert_array_equal(y, np.arange(4) * 2)


def test_booleans_and_scalars(serve: Serve) -> None:
    nodes = [helper.make_node("Not", ["b"], ["not"]), helper.make_node("Add", ["s", "s"], ["twice"])]
    served = serve(onnx_model(nodes, {"b": [3], "s": []}, ["not", "twice"], element_types={"b": np.bool_}))
    assert [d.datatype for d in served.inputs] == ["BOOL", "FP32"]
    assert served.inputs[1].shape == ()
    found = infer(served, b=np.array([True, False, True]), s=np.array(2.5, np.float32))
    assert found["not"].tolist() == [False, True, False]
    assert found["twice"].shape == () and found["twice"] == 5


def strings(*values: bytes) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def string_model() -> onnx.ModelProto:
    """y = x + "!"; the batch size is unknown."""
    graph = helper.make_graph(
        [helper.make_node("StringConcat", ["x", "mark"], ["y"])],
        "strings",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, ["n"])],
        [numpy_helper.from_array(np.array(["!"], object), "mark")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_strings_are_bytes(serve: Serve) -> None:
    served = serve(string_model())
    assert [d.datatype for d in (*served.inputs, *served.outputs)] == ["BYTES", "BYTES"]
    cases: list[list[bytes]] = [[b"a", b"bcd"], [b""], ["ä".encode() * 5000, b"x" * 249], [b"z"] * 300]
    for values in cases:
        assert infer(served, x=strings(*values))["y"].tolist() == [value + b"!" for value in values]


def test_strings_that_are_no_text_cost_nobody_else_anything(serve: Serve) -> None:
    served = serve(string_model())
    for values, index, start in (((b"\xff\xfe",), 0, 0), ((b"a", b"bc\xc3", b"\xa4"), 1, 2)):
        error = refused(served, InferenceRequest({"x": strings(*values)}))
        assert error.kind == ErrorKind.INVALID_ARGUMENT
        assert error.message == (
            f"element {index} of input 'x' for model 'm' is not UTF-8 from byte {start} on, expected strings"
        )
    assert infer(served, x=strings(b"a"))["y"].tolist() == [b"a!"]


def test_requests_of_strings_are_batched_too(serve: Serve) -> None:
    served = serve(string_model(), ServingConfig(max_batch_size=4, batching=Batching((4,), HOUR_NS)))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(infer, served, x=strings(b"a"))
        second = threads.submit(infer, served, x=strings(b"b", b"c", b"d"))
        assert first.result(60)["y"].tolist() == [b"a!"]
        assert second.result(60)["y"].tolist() == [b"b!", b"c!", b"d!"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({}, (), r"expected 1 inputs but got 0 inputs for model 'm'. Got input\(s\) \[\], but missing .* \['x'\]"),
        ({"z": random(1, 3)}, (), "unexpected inference input 'z' for model 'm'"),
        ({"x": random(1, 3)}, ("q",), "unexpected inference output 'q' for model 'm'"),
        (
            {"x": np.zeros((1, 3), np.int32)},
            (),
            "inference input 'x' data-type is 'INT32', but model 'm' expects 'FP32'",
        ),
        (
            {"x": random(1, 4)},
            (),
            r"unexpected shape for input 'x' for model 'm'. Expected \[-1,3\], got \[1,4\]. NOTE: Setting a non-zero",
        ),
        ({"x": random(3)}, (), r"Expected \[-1,3\], got \[3\]"),
        ({"x": random(5, 3)}, (), "inference request batch-size must be <= 4 for 'm', got 5"),
        ({"x": random(0, 3)}, (), "has shape .0,3., expected no axis of length 0"),
    ],
)
def test_a_request_that_is_not_what_the_model_takes_is_refused(
    serve: Serve, inputs: Mapping[str, Array], outputs: Sequence[str], message: str
) -> None:
    served = serve(relu(("n", 3)), ServingConfig(max_batch_size=4))
    error = refused(served, InferenceRequest(inputs, outputs))
    assert error.kind is ErrorKind.INVALID_ARGUMENT
    assert re.search(message, error.message)
    assert served.statistics().failures[FailureReason.OTHER] == 1


def test_all_inputs_have_the_same_batch(serve: Serve) -> None:
    model = onnx_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": ["n", 2], "b": ["n", 2]}, ["y"])
    served = serve(model, ServingConfig(max_batch_size=4))
    error = refused(served, InferenceRequest({"a": random(2, 2), "b": random(1, 2)}))
    assert error.message == "input 'b' batch size does not match other inputs for 'm'"


def test_a_model_without_a_batch_axis_cannot_be_served_in_batches(serve: Serve) -> None:
    with pytest.raises(ServingError, match=r"'x' has shape \[2,3\], expected a variable first axis") as error:
        serve(relu(), ServingConfig(max_batch_size=4))
    assert error.value.kind is ErrorKind.INVALID_ARGUMENT


def test_a_model_needs_an_instance(serve: Serve) -> None:
    with pytest.raises(ServingError, match="0 instances, expected 1 or more"):
        serve(relu(), ServingConfig(instances=0))


def test_only_the_outputs_that_are_wanted_come(serve: Serve) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["x"], ["n"])]
    served = serve(onnx_model(nodes, {"x": [2]}, ["r", "n"]))
    with served.infer_and_wait(InferenceRequest({"x": random(2)}, ("n",))) as response:
        assert list(response.outputs) == ["n"]


def test_outputs_stay_as_they_are_until_they_are_released(serve: Serve) -> None:
    served = serve(relu((1,)))
    held = [served.infer_and_wait(InferenceRequest({"x": np.array([value], np.float32)})) for value in (1, 2, 3)]
    assert [to_array(response.outputs["y"])[0] for response in held] == [1, 2, 3]
    for response in held:
        response.release()
        response.release()
    assert infer(served, x=np.array([4], np.float32))["y"] == [4]
    assert to_array(held[0].outputs["y"])[0] in (1, 4)


def test_requests_that_wait_for_each_other_are_one_execution(serve: Serve) -> None:
    served = serve(relu(("n", 3)), ServingConfig(max_batch_size=8, batching=Batching((6,), HOUR_NS)))
    inputs = [random(size, 3, seed=size) for size in (1, 2, 3)]
    with ThreadPoolExecutor(3) as threads:
        for x, found in zip(inputs, threads.map(lambda x: infer(served, x=x), inputs), strict=True):
            np.testing.assert_array_equal(found["y"], np.maximum(x, 0))
    statistics = served.statistics()
    assert (statistics.execution_count, statistics.inference_count, statistics.success.count) == (1, 6, 3)
    assert list(statistics.batches) == [6]
    assert statistics.batches[6].compute_infer.count == 1


def test_a_bad_request_costs_the_others_of_its_batch_nothing(serve: Serve) -> None:
    model = onnx_model(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        {"x": ["n"]},
        ["y"],
        {"table": np.arange(4, dtype=np.float32)},
        element_type=np.int64,
    )
    served = serve(model, ServingConfig(max_batch_size=3, batching=Batching((3,), HOUR_NS)))

    def gather(index: int) -> float | ServingError:
        try:
            return float(infer(served, x=np.array([index]))["y"][0])
        except ServingError as error:
            return error

    with ThreadPoolExecutor(3) as threads:
        first, bad, last = threads.map(gather, (1, 9, 3))
    assert (first, last) == (1, 3)
    assert isinstance(bad, ServingError)
    assert served.statistics().failures[FailureReason.BACKEND] == 1


def test_requests_that_are_late_or_cancelled_fail_and_are_counted(serve: Serve) -> None:
    seen: list[Finished] = []
    runs: list[Executed] = []

    class Observed:
        def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
            return request.id == "measured"

        def executed(self, executed: Executed) -> None:
            runs.append(executed)

        def finished(self, finished: Finished) -> None:
            seen.append(finished)

    served = serve(relu((1,)), samplers=[Observed()])
    request = InferenceRequest({"x": np.zeros(1, np.float32)}, id="7")
    cancelled = replace(request, cancellation=Cancellation())
    cancelled.cancellation.cancel()
    assert refused(served, cancelled).kind is ErrorKind.CANCELLED
    late = replace(request, deadline_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 1)
    assert refused(served, late).kind is ErrorKind.DEADLINE_EXCEEDED
    served.infer_and_wait(request).release()
    later = replace(request, deadline_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + HOUR_NS)
    served.infer_and_wait(later).release()
    statistics = served.statistics()
    assert statistics.failures == {
        FailureReason.REJECTED: 1,
        FailureReason.CANCELED: 1,
        FailureReason.BACKEND: 0,
        FailureReason.OTHER: 0,
    }
    assert (statistics.success.count, statistics.fail.count) == (2, 2)
    assert statistics.last_inference_ms > 0
    assert [finished.reason for finished in seen] == [FailureReason.CANCELED, FailureReason.REJECTED, None, None]
    assert seen[-1].timing is not None and seen[-1].batch_size == 1 and seen[-1].request is later
    assert all(finished.arrived_ns <= finished.ended_ns for finished in seen)
    assert [run.batch_size for run in runs] == [1, 1]
    served.infer_and_wait(replace(request, id="measured")).release()
    assert [len(run.report.steps) for run in runs] == [0, 0, 1]
    assert sum(edge.copied_bytes for edge in runs[-1].edges) == sum(step.copied_bytes for step in runs[-1].report.steps)


def test_a_closed_model_refuses_and_holds_nothing(serve: Serve) -> None:
    gc.collect()
    regions, _ = mapped_regions()
    served = serve(relu(("n",)))
    for size in range(1, 30):
        infer(served, x=random(size))
    wait_until(lambda: mapped_regions()[0] <= regions + 16, "the instances used longest ago are released")
    held = served.infer_and_wait(InferenceRequest({"x": random(3)}))
    served.close()
    served.close()
    assert refused(served, InferenceRequest({"x": random(3)})).kind is ErrorKind.UNAVAILABLE
    np.testing.assert_array_equal(held.outputs["y"], np.maximum(random(3), 0))
    held.release()
    del held
    assert mapped_regions()[0] == regions


@pytest.mark.parametrize("wanted", ["answered", "late", "cancelled"])
def test_runs_that_fail_hold_nothing_of_a_closed_model(serve: Serve, wanted: str) -> None:
    """No reference cycle keeps their memory until a garbage collection."""
    size = helper.make_node("Range", ["zero", "x", "one"], ["y"])
    model = onnx_model([size], {"x": []}, ["y"], {"zero": np.float32(0), "one": np.float32(1)})
    gc.collect()
    gc.disable()
    try:
        regions, _ = mapped_regions()
        served = serve(model)
        cancellation = Cancellation()
        deadline = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 10**6 if wanted == "late" else NO_DEADLINE
        if wanted == "cancelled":
            threading.Timer(0.001, cancellation.cancel).start()
        for count in (10, 10**4, 10**7):  # which no instance has room for at first
            request = InferenceRequest(
                {"x": np.array(count, np.float32)}, deadline_ns=deadline, cancellation=cancellation
            )
            with suppress(ServingError):
                served.infer_and_wait(request).release()
        served.close()
        del served
        wait_until(lambda: mapped_regions()[0] == regions, "its memory is free")
    finally:
        gc.enable()


def test_closing_waits_for_what_runs(serve: Serve) -> None:
    served = serve(relu(("n", 64)), ServingConfig(instances=2))
    started = threading.Barrier(5)
    outcomes: list[str] = []

    def client() -> None:
        started.wait(60)
        for _ in itertools.repeat(None):
            try:
                infer(served, x=random(64, 64))
            except ServingError as error:
                outcomes.append(error.message)
                return

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait(60)
    served.close()
    for thread in threads:
        thread.join(60)
    assert outcomes == ["the model is being unloaded"] * 4
    assert served.statistics().failures[FailureReason.BACKEND] == 0


def test_a_device_that_is_gone_is_said_so_without_paths(short_path: Path) -> None:
    with device_process("cpu_acc", short_path) as (child, endpoint):
        fleet = Fleet({"cpu_acc": endpoint})
        served = ServedModel(
            "m",
            "1",
            LoadedModel(prepare(import_model(relu().SerializeToString()), fleet, (), Options())),
            ServingConfig(),
            shared_loop(),
        )
        infer(served, x=random(2, 3))
        os.kill(child.pid, signal.SIGKILL)
        wait_for_death(child.pid)
        for _ in range(2):
            error = refused(served, InferenceRequest({"x": random(2, 3)}))
            assert error.kind is ErrorKind.UNAVAILABLE
            assert "/" not in error.message
        assert served.statistics().failures[FailureReason.BACKEND] == 2
        served.close()
        fleet.close()


@pytest.mark.parametrize("measure", [False, True])
def test_another_device_stands_in_for_one_that_is_gone(short_path: Path, cpu_ref: Endpoint, measure: bool) -> None:
    with device_process("cpu_acc", short_path) as (child, endpoint):
        fleet = Fleet({"cpu_acc": endpoint, "cpu_ref": cpu_ref})
        options = Options(pins=(Pin("name:*", "cpu_acc"),))
        model = onnx_model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": [2, 3]}, ["y"])
        loaded = LoadedModel(prepare(import_model(model.SerializeToString()), fleet, (), options))
        served = ServedModel("m", "1", loaded, ServingConfig(), shared_loop(), measure=measure)
        infer(served, x=random(2, 3))
        os.kill(child.pid, signal.SIGKILL)
        wait_for_death(child.pid)
        with served.infer_and_wait(InferenceRequest({"x": random(2, 3)})) as response:
            np.testing.assert_array_equal(response.outputs["y"], np.maximum(random(2, 3), 0))
            assert response.parameters["nnhal_fell_back"] is True
            assert response.parameters.get("nnhal_devices") == ("cpu_ref:1" if measure else None)
        served.close()
        fleet.close()


@pytest.mark.contract("QS-05")
@pytest.mark.parametrize("by_timeout", [False, True])
def test_a_request_ends_by_its_deadline_on_a_device_that_has_stopped(short_path: Path, by_timeout: bool) -> None:
    with device_process("cpu_acc", short_path) as (child, endpoint):
        fleet = Fleet({"cpu_acc": endpoint})
        loaded = LoadedModel(prepare(import_model(relu().SerializeToString()), fleet, (), Options()))
        served = ServedModel("m", "1", loaded, ServingConfig(), shared_loop())
        infer(served, x=random(2, 3))
        stop(child.pid)
        try:
            for _ in range(2):  # the first one runs, and there is no instance for the second one
                tenth = 100_000_000
                deadline_ns = NO_DEADLINE if by_timeout else time.clock_gettime_ns(time.CLOCK_BOOTTIME) + tenth
                request = InferenceRequest(
                    {"x": random(2, 3)}, timeout_ns=tenth if by_timeout else 0, deadline_ns=deadline_ns
                )
                assert refused(served, request).kind is ErrorKind.DEADLINE_EXCEEDED
        finally:
            os.kill(child.pid, signal.SIGCONT)
        np.testing.assert_array_equal(infer(served, x=random(2, 3))["y"], np.maximum(random(2, 3), 0))
        served.close()
        with RemoteDevice(endpoint) as device:
            wait_until(lambda: device.usage().executions == 0, "the device has nothing left")
        fleet.close()


@pytest.mark.parametrize("measure", [False, True])
def test_memory_is_of_a_kind_that_the_devices_use_in_place(short_path: Path, cpu_ref: Endpoint, measure: bool) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["r"]),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "scale", "zero"], ["y"]),
    ]
    constants = {"scale": np.float32(0.5), "zero": np.int8(0)}
    model = onnx_model(nodes, {"x": [1, 8, 8, 3]}, ["y"], constants, element_type=np.int8)
    with device_process("ethos_n", short_path) as (_, endpoint):
        fleet = Fleet({"ethos_n": endpoint, "cpu_ref": cpu_ref})
        options = Options(pins=(Pin("op:RELU", "ethos_n"),))
        loaded = LoadedModel(prepare(import_model(model.SerializeToString()), fleet, (), options))
        served = ServedModel("m", "1", loaded, ServingConfig(), shared_loop(), measure=measure)
        assert served.inputs[0].datatype == "INT8"
        assert served.inputs[0].parameters == {"scale": 0.5, "zero_point": 0}
        image = np.random.default_rng(3).integers(-9, 9, (1, 8, 8, 3)).astype(np.int8)
        with served.infer_and_wait(InferenceRequest({"x": image})) as response:
            np.testing.assert_array_equal(response.outputs["y"], np.maximum(image, 0))
            assert response.parameters["nnhal_devices"] == "ethos_n:1"
            assert response.parameters["nnhal_bytes_copied"] == 2 * image.nbytes
        served.close()
        fleet.close()


class Counted:
    """An observer that counts the requests that run, and keeps those that have ended."""

    def __init__(self) -> None:
        self.running = 0
        self.ended: list[Finished] = []

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        self.running += 1
        return False

    def executed(self, executed: Executed) -> None:
        """Not counted."""

    def finished(self, finished: Finished) -> None:
        self.running -= 1
        self.ended.append(finished)


def test_a_defect_is_counted_and_told_as_a_failure(serve: Serve) -> None:
    counted = Counted()
    served = serve(relu(), samplers=[counted])
    no_array: Any = "no array"
    with pytest.raises(AttributeError):
        served.infer_and_wait(InferenceRequest({"x": no_array}))
    assert served.statistics().failures[FailureReason.OTHER] == 1
    assert counted.running == 0
    assert [(finished.error.kind, finished.reason) for finished in counted.ended if finished.error] == [
        (ErrorKind.INTERNAL, FailureReason.OTHER)
    ]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (TransportError("gone"), ErrorKind.UNAVAILABLE),
        (ServingError(ErrorKind.UNSUPPORTED, "no strings"), ErrorKind.UNSUPPORTED),
        (RuntimeError("a defect"), ErrorKind.INTERNAL),
    ],
    ids=["device", "refusal", "defect"],
)
def test_each_request_of_a_batch_fails_with_an_error_of_its_own(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, failure: Exception, kind: ErrorKind
) -> None:
    def take(*_: object) -> NoReturn:
        raise failure

    config = ServingConfig(max_batch_size=3, batching=Batching((3,), HOUR_NS))
    served = serve(relu(("n", 3)), config)
    monkeypatch.setattr(InstancePool, "take", take)
    with ThreadPoolExecutor(3) as threads:
        errors = list(threads.map(lambda _: refused(served, InferenceRequest({"x": random(1, 3)})), range(3)))
    assert [error.kind for error in errors] == [kind] * 3
    assert len({id(error) for error in (*errors, failure)}) == 4
    assert all(error.__cause__ is failure for error in errors)
    assert served.statistics().failures[FailureReason.BACKEND] == 3
