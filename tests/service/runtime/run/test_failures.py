"""Devices with invalid answers, and devices that fail to prepare or to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.codec import capabilities_to_wire
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.types import Capabilities, DataLocation, ErrorStatus, OperandPerformance, OperandType, PerformanceInfo
from nnhal.v1 import backend_pb2, burst_pb2, device_pb2, request_pb2, types_pb2
from nnhal_frontends import import_model
from nnhal_service.partition import Fallback, Options, Strategy
from nnhal_service.runtime import Fleet, LoadedModel, PreparedPlan, TensorBinding, prepare
from tests.support.repositories import onnx_file
from tests.support.scripted import LAUNCHED, Call, OnBurst, Script, ScriptedDevice, notified, preparing

GENERAL_FAILURE = ErrorStatus.GENERAL_FAILURE


def supports_all(request: Any, call: Call) -> backend_pb2.AssessModelResponse:
    operations = [backend_pb2.OperationSupport(supported=True) for _ in request.model.main.operations]
    return backend_pb2.AssessModelResponse(operations=operations)


Load = Callable[..., PreparedPlan]


@pytest.fixture
def load(cpu_ref: Endpoint, short_path: Path) -> Iterator[Load]:
    """Return what loads the model, pinned to a scripted device, with cpu_ref beside it."""
    with ExitStack() as stack:

        def start(script: Script, on_burst: OnBurst | None = None, **options: Any) -> PreparedPlan:
            device = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), script, on_burst))
            fleet = Fleet({"npu": device.endpoint, "cpu_ref": cpu_ref})
            stack.callback(fleet.close)
            prepared = prepare(import_model(onnx_file(shape=(1, 8))), fleet, (), Options(Strategy.NNAPI, **options))
            stack.callback(prepared.release)
            return prepared

        yield start


def run(prepared: PreparedPlan) -> list[float]:
    pool = create_ashmem(128)
    mapped = open_pool(pool, writable=True)
    assert isinstance(mapped, MappedPool)
    view = mapped.view(0, 128).view(np.float32)
    view[:8] = np.arange(8) / 8
    loaded = LoadedModel(prepared)
    context = loaded.bind(
        [TensorBinding("x", DataLocation(0, 0, 32))], [TensorBinding("y", DataLocation(0, 64, 32))], [pool]
    )
    try:
        context.run()
    finally:
        loaded.unbind(context)
    return [float(value) for value in view[16:24]]


EXPECTED = pytest.approx([float(value) for value in np.tanh(np.arange(8) / 8)], abs=1e-6)
FAST: Script = {"Backend.AssessModel": supports_all}


def cheaper(script: Script) -> Script:
    """Return the script of a device that NNAPI's rule prefers to the CPU."""
    fast = PerformanceInfo(0.5, 0.5)
    capabilities = Capabilities(fast, fast, (OperandPerformance(OperandType.TENSOR_FLOAT32, fast),), fast, fast)
    answer = device_pb2.GetCapabilitiesResponse(capabilities=capabilities_to_wire(capabilities))
    return {**FAST, "Device.GetCapabilities": answer, **script}


def failing_burst(status: ErrorStatus) -> OnBurst:
    """Return a burst whose executions all fail."""

    def answer(call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        return burst_pb2.BurstAnswer(status=types_pb2.ErrorStatus.ValueType(status), message="no")

    return answer


def saying_too_small(call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
    """Answer that the output, whose size is known, does not fit."""
    shape = request_pb2.OutputShape(dimensions=[1, 8], is_sufficient=False)
    nothing = request_pb2.Timing(time_on_device_ns=-1, time_in_driver_ns=-1)
    result = request_pb2.ExecutionResult(output_sufficient_size=False, output_shapes=[shape], timing=nothing)
    return burst_pb2.BurstAnswer(result=result)


def test_a_device_that_implements_only_the_hal_is_used(load: Load) -> None:
    prepared = load(cheaper({"Backend.AssessModel": None}))
    assert [step.device for step in prepared.plan.steps] == ["npu"]


@pytest.mark.contract("PT-25")
def test_a_device_that_answers_for_another_number_of_operations_supports_nothing(load: Load) -> None:
    nonsense = backend_pb2.AssessModelResponse(operations=[backend_pb2.OperationSupport(supported=True)] * 3)
    prepared = load(cheaper({"Backend.AssessModel": nonsense}))
    assert [step.device for step in prepared.plan.steps] == ["cpu_ref"]
    assert run(prepared) == EXPECTED


@pytest.mark.contract("FB-11", "PT-09")
def test_a_device_that_fails_to_prepare_is_left_out(load: Load) -> None:
    failing = {"Device.PrepareModelWithConfig": preparing(LAUNCHED, notified(GENERAL_FAILURE, message="no"))}
    prepared = load(cheaper(failing))
    assert [step.device for step in prepared.plan.steps] == ["cpu_ref"]
    assert run(prepared) == EXPECTED


@pytest.mark.contract("FB-11", "PT-10")
def test_without_fallback_a_failed_preparation_is_an_error(load: Load) -> None:
    failing = {"Device.PrepareModelWithConfig": preparing(LAUNCHED, notified(GENERAL_FAILURE, message="no"))}
    with pytest.raises(HalError) as caught:
        load(cheaper(failing), fallback=Fallback.DENY)
    assert caught.value.status == GENERAL_FAILURE


@pytest.mark.contract("FB-01", "FB-09")
@pytest.mark.parametrize(
    "status",
    [status for status in ErrorStatus if status not in (ErrorStatus.NONE, ErrorStatus.OUTPUT_INSUFFICIENT_SIZE)],
)
def test_the_cpu_runs_what_a_device_fails_to_run(load: Load, status: ErrorStatus) -> None:
    prepared = load(cheaper({}), failing_burst(status))
    assert [step.device for step in prepared.plan.steps] == ["npu"]
    assert run(prepared) == EXPECTED


@pytest.mark.contract("FB-10", "FB-17")
@pytest.mark.parametrize("status", [status for status in ErrorStatus if status != ErrorStatus.NONE])
def test_without_fallback_the_error_of_a_device_is_raised(load: Load, status: ErrorStatus) -> None:
    prepared = load(cheaper({}), failing_burst(status), fallback=Fallback.DENY)
    with pytest.raises(HalError) as caught:
        run(prepared)
    assert caught.value.status == status


@pytest.mark.contract("FB-15")
def test_an_output_of_known_size_that_does_not_fit_is_the_failure_of_its_device(load: Load) -> None:
    assert run(load(cheaper({}), saying_too_small)) == EXPECTED


def test_without_fallback_an_output_of_known_size_that_does_not_fit_is_a_failure(load: Load) -> None:
    prepared = load(cheaper({}), saying_too_small, fallback=Fallback.DENY)
    with pytest.raises(HalError, match="does not fit its memory, which has room for it") as caught:
        run(prepared)
    assert caught.value.status == GENERAL_FAILURE


@pytest.mark.contract("FB-15")
@pytest.mark.parametrize(
    ("sufficient", "shapes"),
    [
        (True, [request_pb2.OutputShape(dimensions=[1, 8], is_sufficient=False)]),
        (False, [request_pb2.OutputShape(dimensions=[1, 8], is_sufficient=True)]),
        (False, []),
        (True, [request_pb2.OutputShape(dimensions=[1, 8], is_sufficient=True)] * 2),
    ],
    ids=[
        "NONE with too little room",
        "too small with enough room",
        "too small without shapes",
        "shapes for two outputs",
    ],
)
def test_invalid_results_are_failures(load: Load, sufficient: bool, shapes: list[request_pb2.OutputShape]) -> None:
    def answer(call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        nothing = request_pb2.Timing(time_on_device_ns=-1, time_in_driver_ns=-1)
        result = request_pb2.ExecutionResult(output_sufficient_size=sufficient, output_shapes=shapes, timing=nothing)
        return burst_pb2.BurstAnswer(result=result)

    assert run(load(cheaper({}), answer)) == EXPECTED
