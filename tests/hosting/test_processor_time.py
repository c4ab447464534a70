"""The time that processes had: by recorded figures, and of real processes that share one processor."""

from __future__ import annotations

import os
from threading import Event

import pytest

from nnhal_hosting.processor_time import ProcessorTime, ThreadTime, share_given
from tests.support.busy import spinning
from tests.support.process_limits import apart, no_descriptors
from tests.support.waiting import stop, wait_until

PAUSE = Event()
BEFORE = {1: ThreadTime(5.0, 1.0, False), 2: ThreadTime(0.5, 0.0, False)}


def after(*changes: tuple[float, float, bool]) -> dict[int, ThreadTime]:
    """Return the times of the threads, some of which have run and waited since."""
    return {
        thread: ThreadTime(before.ran + ran, before.waited + waited, is_ready)
        for (thread, before), (ran, waited, is_ready) in zip(BEFORE.items(), changes, strict=True)
    }


@pytest.mark.parametrize(
    "changes, share",
    [
        (((0.0, 0.0, False), (0.0, 0.0, False)), 1.0),  # all sleep, as in a deadlock
        (((2.0, 0.0, True), (0.0, 0.0, False)), 1.0),  # one computes, as one that keeps the interpreter
        (((0.08, 1.92, True), (0.0, 0.0, False)), 0.04),  # one would compute, among 50 others
        (((0.0, 0.0, True), (0.0, 0.0, False)), 0.0),  # one has waited all the time, and waits on
        (((0.04, 0.96, False), (0.04, 0.96, False)), 0.04),  # one after the other, as a call from thread to thread
        (((0.02, 0.48, False), (0.0, 0.0, False)), 0.76),  # it wanted little, and slept for most of the time
        (((1.0, 1.0, True), (1.0, 1.0, True)), 0.5),  # two on one processor
    ],
)
def test_time_counts_by_what_a_process_was_given_of_what_it_wanted(
    changes: tuple[tuple[float, float, bool], ...], share: float
) -> None:
    assert share_given(2.0, BEFORE, after(*changes)) == pytest.approx(share)


def test_a_thread_that_began_meanwhile_counts_too() -> None:
    assert share_given(2.0, {}, {7: ThreadTime(0.1, 1.9, True)}) == pytest.approx(0.05)


def counted(process: int, seconds: float) -> float:
    """Return which share of some seconds counts for a process."""
    time, passed = ProcessorTime(process), ProcessorTime()
    elapsed = total = 0.0
    while elapsed < seconds:
        PAUSE.wait(0.01)
        elapsed += passed.passed()
        total += time.passed()
    return total / elapsed


def test_little_counts_of_the_time_in_which_others_had_the_processor() -> None:
    with spinning(8) as processes:
        assert counted(processes[0], 0.8) < 0.5  # about an eighth


def test_all_the_time_counts_in_which_a_process_was_stopped() -> None:
    with spinning(2) as (stopped, _):
        stop(stopped)
        assert counted(stopped, 0.2) > 0.9


def test_who_asks_is_not_taken_to_wait_since_it_runs_just_then() -> None:
    assert counted(os.getpid(), 0.3) > 0


def test_a_process_that_cannot_be_seen_is_taken_never_to_wait() -> None:
    assert counted(0, 0.1) > 0.9


def test_no_more_counts_than_may_have_passed() -> None:
    time = ProcessorTime()
    wait_until(lambda: time.passed(1e-9) == 1e-9, "some time passes")


def test_nothing_counts_while_the_kernel_cannot_be_asked() -> None:
    apart(count_without_descriptors)


def count_without_descriptors() -> None:
    with no_descriptors():
        assert counted(os.getpid(), 0.2) < 0.5  # what passes before the kernel is asked for the first time
