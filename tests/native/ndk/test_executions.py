"""Executions through the NDK's API, in all ways to compute, on a device that fails on demand."""

from __future__ import annotations

import gc
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.types import ErrorStatus, Timing
from nnhal_native.ndk import (
    Burst,
    Compilation,
    DurationCode,
    Event,
    Execution,
    OutputInsufficientSizeError,
    ResultCode,
)
from tests.native.ndk.support import WAYS, Floors, framework_over, model_of_unknown_size, named, refused
from tests.support.models import floor_model
from tests.support.scripted import ScriptedDevice

pytestmark = pytest.mark.sdk

UNFENCED = [name for name in WAYS if name != "fenced"]
FORCED = {
    ErrorStatus.DEVICE_UNAVAILABLE: ResultCode.UNAVAILABLE_DEVICE,
    ErrorStatus.GENERAL_FAILURE: ResultCode.OP_FAILED,
    ErrorStatus.INVALID_ARGUMENT: ResultCode.BAD_DATA,
}


@dataclass
class Bench:
    """FLOOR, and a model whose output has no known size, compiled for one named device that fails on demand."""

    floors: Floors
    compilation: Compilation
    of_unknown_size: Compilation

    @contextmanager
    def execution(self, reusable: bool = False, measure: bool = False) -> Iterator[tuple[Execution, Array]]:
        """Return an execution with input 3.7, and its result."""
        result = np.zeros(1, np.float32)
        with Execution(self.compilation) as execution:
            execution.set_reusable(reusable)
            if measure:
                execution.set_measure_timing(True)
            execution.set_input(0, np.array([3.7], np.float32))
            execution.set_output(0, result)
            yield execution, result


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Run one bench for all tests of the module."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        floors = Floors()
        device = ScriptedDevice(Endpoint(directory / "npu"), floors.script, floors.on_burst)
        stack.enter_context(device)
        stack.enter_context(framework_over(directory, {"npu": device.endpoint}))
        compilations = [
            stack.enter_context(Compilation(model, named("npu"))) for model in (floor_model(), model_of_unknown_size())
        ]
        for compilation in compilations:
            compilation.finish()
        yield Bench(floors, *compilations)


@pytest.fixture(autouse=True)
def healthy(bench: Bench) -> Iterator[None]:
    """Make the device healthy before and after each test."""
    yield
    bench.floors.gate.set()
    bench.floors.status = bench.floors.refuses = ErrorStatus.NONE
    bench.floors.timings = (Timing(), Timing(), Timing())


@pytest.mark.contract("TE-01")
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_computes_the_result(bench: Bench, way: str, reusable: bool) -> None:
    with bench.execution(reusable) as (execution, result):
        for _ in range(2 if reusable else 1):
            result[:] = 0
            WAYS[way](execution, bench.compilation)
            assert result == 3
            assert execution.output_operand_dimensions(0) == (1,)
            assert execution.output_operand_rank(0) == 1


@pytest.mark.parametrize("way", WAYS)
def test_executions_in_turn_share_what_the_first_has_bound(bench: Bench, way: str) -> None:
    with bench.execution() as (execution, _):
        WAYS[way](execution, bench.compilation)
    bound = len(bench.floors.configs)
    for _ in range(2):
        with bench.execution(reusable=True) as (execution, result):
            for _ in range(2):
                result[:] = 0
                WAYS[way](execution, bench.compilation)
                assert result == 3
    assert len(bench.floors.configs) == bound


def test_executions_at_a_time_have_bindings_of_their_own(bench: Bench) -> None:
    with bench.execution() as (first, one), bench.execution() as (second, other):
        bench.floors.gate.clear()
        events = first.start_compute(), second.start_compute()
        bench.floors.gate.set()
        for event in events:
            event.wait()
        assert one == other == 3


def test_garbage_is_collected_while_its_execution_runs_and_freed_when_that_has_ended(bench: Bench) -> None:
    given, result, freed = np.array([3.7], np.float32), np.zeros(1, np.float32), threading.Event()
    weakref.finalize(given, freed.set)
    execution = Execution(bench.compilation)
    execution.set_input(0, given)
    execution.set_output(0, result)
    bench.floors.gate.clear()
    cycle: list[object] = [execution, execution.start_compute()]
    cycle.append(cycle)
    del given, execution, cycle
    gc.collect()
    assert not freed.is_set()
    bench.floors.gate.set()
    freed.wait()
    assert result == 3


@pytest.mark.contract("TE-02", "TE-03", "TE-05", "FB-10", "FB-13", "FB-17")
@pytest.mark.parametrize("status", FORCED, ids=lambda status: status.name)
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
@pytest.mark.parametrize("way", WAYS)
def test_a_failure_is_reported_and_output_dimensions_are_unavailable(
    bench: Bench, way: str, reusable: bool, status: ErrorStatus
) -> None:
    bench.floors.status = status
    with bench.execution(reusable) as (execution, result):
        for _ in range(2 if reusable else 1):
            refused(FORCED[status], lambda: WAYS[way](execution, bench.compilation))
            refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0))
        assert result == 0


@pytest.mark.contract("TE-04", "FB-02")
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
@pytest.mark.parametrize("way", UNFENCED)
def test_a_too_small_output_reports_the_dimensions_that_it_needs(bench: Bench, way: str, reusable: bool) -> None:
    bench.floors.status = ErrorStatus.OUTPUT_INSUFFICIENT_SIZE
    with Execution(bench.of_unknown_size) as execution:
        execution.set_reusable(reusable)
        execution.set_input(0, np.array([1], np.int32))
        execution.set_output(0, np.zeros(1, np.float32))
        for _ in range(2 if reusable else 1):
            refused(ResultCode.OUTPUT_INSUFFICIENT_SIZE, lambda: WAYS[way](execution, bench.of_unknown_size))
            with pytest.raises(OutputInsufficientSizeError) as caught:
                execution.output_operand_dimensions(0)
            assert caught.value.code == ResultCode.OUTPUT_INSUFFICIENT_SIZE
            assert caught.value.dimensions == (1,)


def start(execution: Execution, way: str) -> Event:
    """Start a computation without waiting for its end."""
    return execution.start_compute() if way == "asynchronous" else execution.start_compute_with_dependencies()


@pytest.mark.contract("TE-06", "TE-09", "IC-12")
@pytest.mark.parametrize("status", [ErrorStatus.NONE, ErrorStatus.GENERAL_FAILURE], ids=lambda status: status.name)
@pytest.mark.parametrize("way", ["asynchronous", "fenced"])
def test_during_a_computation_nothing_can_be_queried_or_changed(bench: Bench, way: str, status: ErrorStatus) -> None:
    bench.floors.status = status
    bench.floors.gate.clear()
    with bench.execution(reusable=True, measure=True) as (execution, result):
        event = start(execution, way)
        refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0))
        refused(ResultCode.BAD_STATE, lambda: execution.output_operand_rank(0))
        refused(ResultCode.BAD_STATE, lambda: execution.set_input(0, np.zeros(1, np.float32)))
        refused(ResultCode.BAD_STATE, lambda: execution.set_output(0, result))
        refused(ResultCode.BAD_STATE, execution.compute)
        refused(ResultCode.BAD_STATE, lambda: execution.duration(DurationCode.ON_HARDWARE))
        bench.floors.gate.set()
        if status:
            refused(ResultCode.OP_FAILED, event.wait)
            refused(ResultCode.OP_FAILED, event.wait)
        else:
            event.wait()
            event.wait()
            assert result == 3


@pytest.mark.contract("TE-07")
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
@pytest.mark.parametrize("status", FORCED, ids=lambda status: status.name)
def test_a_launch_that_fails_gives_no_event(bench: Bench, status: ErrorStatus, reusable: bool) -> None:
    bench.floors.refuses = status
    with bench.execution(reusable) as (execution, _):
        for _ in range(2 if reusable else 1):
            refused(FORCED[status], execution.start_compute_with_dependencies, "on demand")
            refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0))


@pytest.mark.contract("TE-08")
@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_an_execution_that_is_not_reusable_computes_only_once(bench: Bench, first: str, second: str) -> None:
    with bench.execution() as (execution, _):
        WAYS[first](execution, bench.compilation)
        refused(ResultCode.BAD_STATE, lambda: WAYS[second](execution, bench.compilation))


@pytest.mark.contract("TE-09")
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
def test_arguments_cannot_change_after_a_computation(bench: Bench, reusable: bool) -> None:
    with bench.execution(reusable) as (execution, result):
        execution.compute()
        refused(ResultCode.BAD_STATE, lambda: execution.set_input(0, np.zeros(1, np.float32)))
        refused(ResultCode.BAD_STATE, lambda: execution.set_output(0, result))


def test_each_computation_reads_the_current_contents_of_buffers(bench: Bench) -> None:
    value, result = np.zeros(1, np.float32), np.zeros(1, np.float32)
    with Execution(bench.compilation) as execution:
        execution.set_reusable(True)
        execution.set_input(0, value)
        execution.set_output(0, result)
        for given in (1.5, 7.25):
            value[:] = given
            execution.compute()
            assert result == np.floor(given)


@pytest.mark.contract("TE-10")
@pytest.mark.parametrize("reusable", [False, True], ids=["once", "reusable"])
def test_settings_cannot_change_after_the_first_computation(bench: Bench, reusable: bool) -> None:
    with bench.execution(reusable) as (execution, _):
        execution.compute()
        refused(ResultCode.BAD_STATE, lambda: execution.enable_input_and_output_padding(True))
        refused(ResultCode.BAD_STATE, lambda: execution.set_timeout(1))
        refused(ResultCode.BAD_STATE, lambda: execution.set_loop_timeout(1))
        refused(ResultCode.BAD_STATE, lambda: execution.set_measure_timing(True))
        refused(ResultCode.BAD_STATE, lambda: execution.set_reusable(True))
        refused(ResultCode.BAD_STATE, lambda: execution.add_extension_attribute("com.acme.hints", 1, b""))


def test_an_execution_does_not_begin_without_all_its_arguments(bench: Bench) -> None:
    result = np.zeros(1, np.float32)
    with Execution(bench.compilation) as execution:
        execution.set_output(0, result)
        refused(ResultCode.BAD_DATA, execution.compute, "input 0 is not set")
        execution.set_input(0, np.array([3.5], np.float32))
        execution.compute()
        assert result == 3


def test_a_burst_only_computes_executions_of_its_own_compilation(bench: Bench) -> None:
    with Compilation(floor_model()) as other:
        other.finish()
        with bench.execution() as (execution, _):
            refused(ResultCode.BAD_DATA, lambda: execution.burst_compute(Burst(other)))
            execution.compute()


def test_a_compilation_that_is_not_finished_has_no_executions(bench: Bench) -> None:
    with Compilation(floor_model()) as unfinished:
        refused(ResultCode.BAD_STATE, lambda: Execution(unfinished))
        refused(ResultCode.BAD_STATE, lambda: Burst(unfinished))


def test_dependencies_are_awaited(bench: Bench) -> None:
    bench.floors.gate.clear()
    with bench.execution() as (first, _), bench.execution() as (second, result):
        before = first.start_compute()
        after = second.start_compute_with_dependencies([before])
        refused(ResultCode.BAD_STATE, lambda: second.output_operand_dimensions(0))
        refused(ResultCode.UNEXPECTED_NULL, lambda: second.start_compute_with_dependencies([None]))
        bench.floors.gate.set()
        after.wait()
        assert result == 3


@pytest.mark.contract("IC-10")
@pytest.mark.parametrize("way", UNFENCED)
@pytest.mark.parametrize("timing", [Timing(3, 7), Timing(-1, 7), Timing()], ids=str)
def test_times_are_unchanged_and_fenced_times_of_unfenced_executions_equal_the_plain_ones(
    bench: Bench, way: str, timing: Timing
) -> None:
    bench.floors.timings = (timing, Timing(100, 200), Timing(50, 60))
    with bench.execution(measure=True) as (execution, _):
        WAYS[way](execution, bench.compilation)
        on_device, in_driver = expected(timing)
        assert execution.duration(DurationCode.ON_HARDWARE) == on_device
        assert execution.duration(DurationCode.IN_DRIVER) == in_driver
        assert execution.duration(DurationCode.FENCED_ON_HARDWARE) == on_device
        assert execution.duration(DurationCode.FENCED_IN_DRIVER) == in_driver


@pytest.mark.contract("IC-10")
@pytest.mark.parametrize("launched", [Timing(30, 70), Timing(-1, 70), Timing()], ids=str)
@pytest.mark.parametrize("fenced", [Timing(3, 7), Timing(-1, 7), Timing()], ids=str)
def test_both_pairs_of_times_of_a_fenced_execution_are_unchanged(
    bench: Bench, launched: Timing, fenced: Timing
) -> None:
    bench.floors.timings = (Timing(1, 2), launched, fenced)
    with bench.execution(measure=True) as (execution, _):
        execution.start_compute_with_dependencies().wait()
        assert (execution.duration(DurationCode.ON_HARDWARE), execution.duration(DurationCode.IN_DRIVER)) == expected(
            launched
        )
        assert (
            execution.duration(DurationCode.FENCED_ON_HARDWARE),
            execution.duration(DurationCode.FENCED_IN_DRIVER),
        ) == expected(fenced)


def expected(timing: Timing) -> tuple[int | None, int | None]:
    """Return the duration that the application sees."""
    known = [None if time < 0 else time for time in (timing.time_on_device_ns, timing.time_in_driver_ns)]
    return known[0], known[1]


@pytest.mark.contract("IC-11")
@pytest.mark.parametrize("way", WAYS)
def test_a_failed_execution_has_no_times(bench: Bench, way: str) -> None:
    bench.floors.status = ErrorStatus.GENERAL_FAILURE
    with bench.execution(measure=True) as (execution, _):
        refused(ResultCode.OP_FAILED, lambda: WAYS[way](execution, bench.compilation))
        for code in DurationCode:
            refused(ResultCode.BAD_STATE, partial(execution.duration, code))


@pytest.mark.contract("IC-11")
def test_an_execution_that_was_not_launched_has_no_times(bench: Bench) -> None:
    bench.floors.refuses = ErrorStatus.GENERAL_FAILURE
    with bench.execution(measure=True) as (execution, _):
        refused(ResultCode.OP_FAILED, execution.start_compute_with_dependencies)
        refused(ResultCode.BAD_STATE, lambda: execution.duration(DurationCode.ON_HARDWARE))


@pytest.mark.contract("IC-12")
@pytest.mark.parametrize("way", WAYS)
def test_without_measuring_no_times_are_reported(bench: Bench, way: str) -> None:
    bench.floors.timings = (Timing(3, 7), Timing(3, 7), Timing(3, 7))
    with bench.execution() as (execution, _):
        execution.set_loop_timeout(5_000_000_000 + list(WAYS).index(way))
        WAYS[way](execution, bench.compilation)
        refused(ResultCode.BAD_STATE, lambda: execution.duration(DurationCode.IN_DRIVER))
    assert not bench.floors.configs[-1].measure_timing


@pytest.mark.contract("IC-14")
@pytest.mark.parametrize("way", WAYS)
def test_a_timeout_becomes_a_deadline_and_0_means_none(bench: Bench, way: str) -> None:
    for timeout_ns in (0, 10**13):
        with bench.execution() as (execution, result):
            execution.set_timeout(timeout_ns)
            WAYS[way](execution, bench.compilation)
            assert result == 3
        assert (bench.floors.deadlines[-1] > 0) == (timeout_ns > 0)


@pytest.mark.contract("IC-15")
def test_the_loop_timeout_is_at_most_the_maximum(bench: Bench) -> None:
    for asked, told in ((10**9, 10**9), (15 * 10**9 + 1, 15 * 10**9), (10**12, 15 * 10**9)):
        with bench.execution() as (execution, _):
            execution.set_loop_timeout(asked)
            execution.compute()
        assert bench.floors.configs[-1].loop_timeout_duration_ns == told
