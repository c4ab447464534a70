"""Runs whose caller is told by the deadline, whatever their devices do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.workers import Workers

_GRACE_SECONDS = 0.5
"""What devices get to end a run themselves: they look at the clock between operations."""
_LONGEST_WAIT_SECONDS = 1e6
_MOST_RUNS = 4096
"""With a deadline, at a time; others wait, and their deadlines go on."""
_threads = Workers(_MOST_RUNS, "run")
_log = get_logger(__name__)
T = TypeVar("T")


class StillRunningError(HalError):
    """MISSED_DEADLINE_TRANSIENT: the run goes on, and what it uses is in use until it ends."""

    def __init__(self) -> None:
        message = (
            f"the run has not ended {_GRACE_SECONDS} s after its deadline: a device has stopped, or keeps to none; "
            "the binding and its memory are in use until it ends"
        )
        super().__init__(ErrorStatus.MISSED_DEADLINE_TRANSIENT, message)


def run_by_deadline(run: Callable[[int], T], deadline_ns: int, late: Callable[[T], object] = lambda _: None) -> T:
    """Call ``run`` with its deadline, an instant of CLOCK_BOOTTIME; wait for it little longer than that.

    Raises as ``run``, and StillRunningError where it has not ended. It then goes on without its caller, since devices
    may still use its memory; ``late`` is called with what comes of it.
    """
    if deadline_ns == NO_DEADLINE:
        return run(deadline_ns)
    outcome = _threads.submit(run, deadline_ns)
    left = (deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9
    try:
        return outcome.result(min(max(0.0, left) + _GRACE_SECONDS, _LONGEST_WAIT_SECONDS))
    except TimeoutError:
        if outcome.done():  # it is the run's own
            raise
        _log.warning("a run has not ended by its deadline; it goes on without its client")
        outcome.add_done_callback(lambda done: late(done.result()) if done.exception() is None else None)
        raise StillRunningError from None
    finally:
        # This frame must not hold what holds the error that holds the frame: a run's memory would then be kept until
        # Python looks for circles.
        del outcome
