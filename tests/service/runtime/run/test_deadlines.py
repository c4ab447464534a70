"""Runs that end by their deadline, and runs that do not."""

from __future__ import annotations

import threading
import time
import weakref
from typing import NoReturn

import pytest

from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal_service.runtime.run.deadlines import run_by_deadline
from tests.support.waiting import wait_until

LATEST = (1 << 63) - 1


def in_seconds(seconds: float) -> int:
    """Return an instant of CLOCK_BOOTTIME, ``seconds`` from now."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(seconds * 1e9)


def test_a_run_without_a_deadline_is_called_directly() -> None:
    assert run_by_deadline(lambda _: threading.current_thread(), NO_DEADLINE) is threading.current_thread()


@pytest.mark.contract("QS-06")
@pytest.mark.parametrize("deadline_ns", [LATEST, 0])
def test_a_run_that_ends_in_time_returns_its_result_and_knows_its_deadline(deadline_ns: int) -> None:
    assert run_by_deadline(lambda deadline: deadline, deadline_ns) == deadline_ns


def test_an_error_of_a_run_is_raised() -> None:
    def fail(deadline_ns: int) -> NoReturn:
        raise HalError(ErrorStatus.GENERAL_FAILURE, "no")

    with pytest.raises(HalError, match="GENERAL_FAILURE: no"):
        run_by_deadline(fail, LATEST)


def test_memory_of_a_failed_run_is_released_at_once(uncollected: None) -> None:
    class Memory:
        """Something that a run uses."""

    def used() -> weakref.ref[Memory]:
        memory = Memory()

        def fail(deadline_ns: int, memory: Memory = memory) -> NoReturn:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, f"no time for {memory}")

        with pytest.raises(HalError):
            run_by_deadline(fail, LATEST)
        return weakref.ref(memory)

    memory = used()
    wait_until(lambda: memory() is None, "the memory is free")


@pytest.mark.contract("QS-05")
def test_a_run_that_does_not_end_in_time_is_abandoned() -> None:
    released, ended = threading.Event(), threading.Event()

    def run(deadline_ns: int) -> None:
        released.wait()
        ended.set()

    with pytest.raises(HalError, match=r"has not ended 0\.5 s after its deadline") as caught:
        run_by_deadline(run, in_seconds(0.01))
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert not ended.is_set()
    released.set()
    assert ended.wait(30)
