"""Runs with a deadline: the caller gets an answer soon after it, whatever the devices do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.workers import Workers

_GRACE_SECONDS = 0.5
"""The time that after its deadline a device may take to end a run itself; it looks at the clock between operations."""
_LONGEST_WAIT_SECONDS = 1e6
_MOST_RUNS = 4096
"""Runs with a deadline at a time; others wait while their deadlines approach."""
_threads = Workers(_MOST_RUNS, "run")
_log = get_logger(__name__)
T = TypeVar("T")


class StillRunningError(HalError):
    """MISSED_DEADLINE_TRANSIENT: the run continues, and its binding and memory are in use until it ends."""

    def __init__(self) -> None:
        message = (
            f"the run has not ended {_GRACE_SECONDS} s after its deadline: a device has stopped, or ignores deadlines; "
            "the binding and its memory are in use until it ends"
        )
        super().__init__(ErrorStatus.MISSED_DEADLINE_TRANSIENT, message)


def seconds_to_wait(deadline_ns: int) -> float:
    """Return how long to wait for a run with a deadline, an instant of CLOCK_BOOTTIME; then it is ``still_running``."""
    left = (deadline_ns - now_ns()) / 1e9
    return min(max(0.0, left) + _GRACE_SECONDS, _LONGEST_WAIT_SECONDS)


def has_passed(deadline_ns: int) -> bool:
    """Return whether a deadline, an instant of CLOCK_BOOTTIME, has passed."""
    return deadline_ns != NO_DEADLINE and now_ns() > deadline_ns


def still_running() -> StillRunningError:
    """The error of a run that is not waited for any longer, which is logged."""
    _log.warning("a run has not ended by its deadline; it continues without its client")
    return StillRunningError()


def run_by_deadline(run: Callable[[int], T], deadline_ns: int, late: Callable[[T], object] = lambda _: None) -> T:
    """Call ``run`` with its deadline, an instant of CLOCK_BOOTTIME, and wait for it slightly longer than that.

    Raises as ``run`` does, and StillRunningError if it has not ended. It then continues without its caller, since
    devices may still use its memory; ``late`` is called with its result.
    """
    if deadline_ns == NO_DEADLINE:
        return run(deadline_ns)
    outcome = _threads.submit(run, deadline_ns)
    try:
        return outcome.result(seconds_to_wait(deadline_ns))
    except TimeoutError:
        if outcome.done():  # the run itself raised it
            raise
        outcome.add_done_callback(lambda done: late(done.result()) if done.exception() is None else None)
        raise still_running() from None
    finally:
        # The future holds the error, and the error this frame: without this, a reference cycle would keep the run's
        # memory alive until the next garbage collection.
        del outcome
