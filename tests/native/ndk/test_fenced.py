"""Fenced computations through the NDK's API, of one step and of several, that succeed or fail at once or later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.codec import capabilities_to_wire
from nnhal.endpoint import Endpoint
from nnhal.fence import FenceState, create_fence
from nnhal.operations.operand_types import F32
from nnhal.types import Capabilities, ErrorStatus, Model, Operand, OperandPerformance, OperationType, PerformanceInfo
from nnhal.v1 import device_pb2
from nnhal_native.ndk import Compilation, Event, Execution, ResultCode
from tests.native.ndk.support import Floors, framework_over, named, refused
from tests.support.models import Recipe
from tests.support.scripted import Call, ScriptedDevice

pytestmark = pytest.mark.sdk

FAST = PerformanceInfo(0.5, 0.5)
CAPABILITIES = Capabilities(FAST, FAST, (OperandPerformance(F32, FAST),), FAST, FAST)
SINGLE, CHAIN = (OperationType.FLOOR,), (OperationType.FLOOR, OperationType.NEG, OperationType.FLOOR)
RESULTS = {SINGLE: 3.0, CHAIN: -3.0}
LENGTHS = pytest.mark.parametrize("operations", [SINGLE, CHAIN], ids=["one step", "three steps"])


def only_floor(request: Any, call: Call) -> device_pb2.GetSupportedOperationsResponse:
    answers = [operation.type == OperationType.FLOOR for operation in request.model.main.operations]
    return device_pb2.GetSupportedOperationsResponse(supported=answers)


@pytest.fixture
def floors() -> Iterator[Floors]:
    device = Floors()
    yield device
    device.gate.set()


@pytest.fixture(autouse=True)
def framework(cpu_ref: Endpoint, short_path: Path, floors: Floors) -> Iterator[None]:
    """Run a framework over cpu_ref and a device that floors faster than it."""
    capabilities = device_pb2.GetCapabilitiesResponse(capabilities=capabilities_to_wire(CAPABILITIES))
    script = {
        **floors.script,
        "Device.GetSupportedOperations": only_floor,
        "Device.GetCapabilities": capabilities,
    }
    with ExitStack() as stack:
        device = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), script, floors.on_burst))
        stack.enter_context(framework_over(short_path, {"npu": device.endpoint, "cpu_ref": cpu_ref}))
        yield


def model_of(operations: tuple[OperationType, ...], result: tuple[int, ...] = (1,)) -> Model:
    recipe = Recipe()
    value = recipe.input(F32, (1,))
    for code in operations:
        value = recipe.operation(code, [value], Operand(F32, result if code == operations[-1] else (1,)))
    return recipe.build(value).model


Started = tuple[Execution, Array]


@contextmanager
def execution_of(operations: tuple[OperationType, ...], explicit: bool = False) -> Iterator[Started]:
    """Return a reusable execution with input 3.7, and its result."""
    devices = named("npu", "nnapi-reference") if explicit else None
    result = np.zeros(1, np.float32)
    with Compilation(model_of(operations), devices) as compilation:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_reusable(True)
            execution.set_input(0, np.array([3.7], np.float32))
            execution.set_output(0, result)
            yield execution, result


def pending() -> tuple[Callable[[], None], Event]:
    signal, fence = create_fence()
    return signal.send, Event.from_sync_fence(fence)


@LENGTHS
def test_the_steps_await_the_fences_of_the_application(floors: Floors, operations: tuple[OperationType, ...]) -> None:
    with execution_of(operations) as (execution, result):
        for _ in range(2):
            result[:] = 0
            (first, before), (second, other) = pending(), pending()
            event = execution.start_compute_with_dependencies([before, other])
            first()
            assert event.sync_fence.state is FenceState.PENDING
            second()
            event.wait()
            assert result == RESULTS[operations]


@LENGTHS
def test_a_fence_of_the_application_that_fails_fails_the_execution(operations: tuple[OperationType, ...]) -> None:
    with execution_of(operations) as (execution, result):
        signal, fence = create_fence()
        event = execution.start_compute_with_dependencies([Event.from_sync_fence(fence)])
        signal.fail()
        refused(ResultCode.OP_FAILED, event.wait)
        assert result == 0
        execution.start_compute_with_dependencies().wait()
        assert result == RESULTS[operations]


@LENGTHS
def test_a_fence_of_the_application_that_has_failed_already_is_refused(operations: tuple[OperationType, ...]) -> None:
    with execution_of(operations) as (execution, result):
        signal, fence = create_fence()
        signal.fail()
        event = Event.from_sync_fence(fence)
        refused(ResultCode.BAD_DATA, lambda: execution.start_compute_with_dependencies([event]))
        assert result == 0
        execution.start_compute_with_dependencies().wait()
        assert result == RESULTS[operations]


@pytest.mark.contract("FB-12")
@pytest.mark.parametrize(
    ("operations", "accepted"), [(SINGLE, 0), (CHAIN, 0), (CHAIN, 1)], ids=["only step", "first step", "later step"]
)
def test_after_a_failed_launch_the_cpu_computes_once_the_fences_have_signalled(
    floors: Floors, operations: tuple[OperationType, ...], accepted: int
) -> None:
    floors.refuses = ErrorStatus.GENERAL_FAILURE
    with execution_of(operations) as (execution, result):
        for _ in range(2):
            result[:], floors.accepts = 0, accepted
            signal, before = pending()
            event = execution.start_compute_with_dependencies([before])
            assert event.sync_fence.state is FenceState.PENDING
            signal()
            event.wait()
            assert result == RESULTS[operations]


@pytest.mark.contract("FB-10", "FB-12", "TE-07")
@pytest.mark.parametrize(
    ("operations", "accepted"), [(SINGLE, 0), (CHAIN, 0), (CHAIN, 1)], ids=["only step", "first step", "later step"]
)
def test_a_launch_that_fails_on_a_named_device_is_an_error(
    floors: Floors, operations: tuple[OperationType, ...], accepted: int
) -> None:
    floors.refuses, floors.accepts = ErrorStatus.GENERAL_FAILURE, accepted
    with execution_of(operations, explicit=True) as (execution, result):
        refused(ResultCode.OP_FAILED, execution.start_compute_with_dependencies, "on demand")
        refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0))
        assert result == 0


@pytest.mark.contract("FB-13")
@LENGTHS
@pytest.mark.parametrize("explicit", [False, True], ids=["default", "named"])
def test_a_failure_after_the_launch_does_not_fall_back(
    floors: Floors, operations: tuple[OperationType, ...], explicit: bool
) -> None:
    floors.status = ErrorStatus.GENERAL_FAILURE
    with execution_of(operations, explicit) as (execution, result):
        event = execution.start_compute_with_dependencies()
        refused(ResultCode.OP_FAILED, event.wait, "on demand")
        refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0))
        assert event.sync_fence.state is FenceState.ERROR
        assert result == 0
        floors.status = ErrorStatus.NONE
        execution.start_compute_with_dependencies().wait()
        assert result == RESULTS[operations]


def test_an_output_of_unknown_size_is_computed_once_the_fences_have_signalled() -> None:
    result = np.zeros(1, np.float32)
    with Compilation(model_of((OperationType.NEG, OperationType.ABS), ())) as compilation:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_input(0, np.array([3.7], np.float32))
            execution.set_output(0, result)
            signal, before = pending()
            event = execution.start_compute_with_dependencies([before])
            assert event.sync_fence.state is FenceState.PENDING
            signal()
            event.wait()
            assert execution.output_operand_dimensions(0) == (1,)
    assert result == np.float32(3.7)


@LENGTHS
def test_many_fences_are_awaited(operations: tuple[OperationType, ...]) -> None:
    fences = [pending() for _ in range(20)]
    with execution_of(operations) as (execution, result):
        event = execution.start_compute_with_dependencies([before for _, before in fences])
        for signal, _ in fences[1:]:
            signal()
        assert event.sync_fence.state is FenceState.PENDING
        fences[0][0]()
        event.wait()
        assert result == RESULTS[operations]


@LENGTHS
def test_executions_are_chained_by_their_events(operations: tuple[OperationType, ...]) -> None:
    with (
        execution_of(operations) as (first, result),
        execution_of(operations) as (second, other),
    ):
        signal, before = pending()
        event = second.start_compute_with_dependencies([first.start_compute_with_dependencies([before])])
        assert event.sync_fence.state is FenceState.PENDING
        signal()
        event.wait()
        first.output_operand_dimensions(0)
        assert (result[0], other[0]) == (RESULTS[operations], RESULTS[operations])


@LENGTHS
def test_a_session_may_end_while_a_launch_is_pending(operations: tuple[OperationType, ...]) -> None:
    with execution_of(operations) as (execution, _):
        signal, fence = create_fence()
        execution.start_compute_with_dependencies([Event.from_sync_fence(fence)])
        signal.fail()
        execution.close()
