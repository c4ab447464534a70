from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import CLOCK_BOOTTIME, clock_gettime_ns

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations.operand_types import F32
from nnhal.types import NO_SPAN, ErrorStatus, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import Argument, AsynchronousWorkload, Control, DriverOptions, Outcome, PrepareOptions
from nnhal_devices.gpu_acc.driver import GpuAcc
from nnhal_devices.gpu_acc.performance import ROOFLINE
from nnhal_devices.gpu_acc.queue import InOrderQueue
from nnhal_devices.gpu_acc.workload import QueuedRun
from tests.support.agreement import like
from tests.support.models import Recipe

PASSED_NS = 1
"""A deadline of long ago."""


@pytest.fixture
def driver() -> GpuAcc:
    return GpuAcc(DriverOptions())


def _doubling(driver: GpuAcc, values: Sequence[float], dimensions: Dimensions = (3,)) -> tuple[QueuedRun, Array, Array]:
    """A run that doubles what is in memory, its input, and its output."""
    recipe = Recipe()
    given = recipe.input(F32, dimensions)
    total = recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(F32, dimensions))
    read, written = np.array(values, np.float32), np.zeros(len(values), np.float32)
    workload = driver.prepare(recipe.build(total), PrepareOptions())
    bound = workload.bind(
        [Argument(read.view(np.uint8), (len(values),))], [Argument(written.view(np.uint8), dimensions)]
    )
    return bound, read, written


def _queue(driver: GpuAcc) -> InOrderQueue:
    queue = driver.backend.queue
    assert isinstance(queue, InOrderQueue)
    return queue


def test_results_are_not_there_before_a_sync_and_inputs_are_read_as_they_are_then(driver: GpuAcc) -> None:
    bound, read, written = _doubling(driver, (1, 2, 3))
    assert isinstance(bound, AsynchronousWorkload)
    entry = bound.enqueue(Control())
    np.testing.assert_array_equal(written, 0)
    read[:] = 5
    _queue(driver).sync()
    np.testing.assert_array_equal(written, 10)
    assert entry.result().dimensions == ()


def test_a_run_is_visible_when_it_ends_and_so_is_what_was_enqueued_before(driver: GpuAcc) -> None:
    first, _, early = _doubling(driver, (1, 2, 3))
    second, _, late = _doubling(driver, (4, 5, 6))
    entry = first.enqueue(Control())
    second.run(Control())
    np.testing.assert_array_equal(early, [2, 4, 6])
    np.testing.assert_array_equal(late, [8, 10, 12])
    entry.result()


def test_a_deadline_is_looked_at_when_it_is_done_and_costs_only_its_own_run(driver: GpuAcc) -> None:
    (late, _, missing), (other, _, written) = (_doubling(driver, (1, 2, 3)) for _ in range(2))
    missed, entry = late.enqueue(Control(deadline_ns=PASSED_NS)), other.enqueue(Control())
    _queue(driver).sync()
    with pytest.raises(HalError) as caught:
        missed.result()
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    np.testing.assert_array_equal(missing, 0)
    entry.result()
    np.testing.assert_array_equal(written, [2, 4, 6])
    late.run(Control())
    np.testing.assert_array_equal(missing, [2, 4, 6])


def test_time_on_the_device_is_the_models(driver: GpuAcc) -> None:
    bound, _, _ = _doubling(driver, (1, 2, 3))
    moved = 12 + 12 + 4  # input, output, and the scalar that says which activation
    outcome = bound.run(Control())
    assert replace(outcome, span=NO_SPAN) == Outcome(time_on_device_ns=round(ROOFLINE.overhead_ns + moved / 10))


def test_time_follows_the_dimensions_of_the_execution(driver: GpuAcc) -> None:
    for length in (1_000, 100_000):
        bound, _, written = _doubling(driver, [1] * length, (0,))
        outcome = bound.run(Control())
        np.testing.assert_array_equal(written, 2)
        expected = Outcome(((length,),), round(ROOFLINE.overhead_ns + 2 * 4 * length / 10))
        assert replace(outcome, span=NO_SPAN) == expected


def test_a_run_is_done_between_the_sync_and_its_end_not_while_it_waits_in_the_queue(driver: GpuAcc) -> None:
    (first, _, _), (second, _, _) = (_doubling(driver, (1, 2, 3)) for _ in range(2))
    entries = [first.enqueue(Control()), second.enqueue(Control())]
    before = clock_gettime_ns(CLOCK_BOOTTIME)
    _queue(driver).sync()
    after = clock_gettime_ns(CLOCK_BOOTTIME)
    spans = [entry.result().span for entry in entries]
    instants = [before, *(instant for span in spans for instant in span), after]
    assert instants == sorted(instants)
