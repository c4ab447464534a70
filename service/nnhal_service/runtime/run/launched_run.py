"""Runs that are launched: they begin when fences have signalled, and say by a fence of their own when they have ended.

Steps that can be fenced are launched at once on their devices, which await the fences themselves. Where one cannot be
launched, the run waits for the caller's fences and the whole model runs on the CPU, if that may be; after the launch
nothing falls back. Where the plan cannot be fenced, a thread waits and runs it like any other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.fence import Fence, FenceError, create_fence, wait_for_all
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, ErrorStatus, Timing
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.chained import MAX_FENCES, Chained, Launched
from nnhal_service.runtime.run.reports import RunReport

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a launched run ended: with a report or an error. ``timing_launched`` is from the launch to the end,
    ``timing_fenced`` from the last awaited fence, both where the plan has one step and the binding measures."""

    report: RunReport | None = None
    error: NnhalError | None = None
    timing_launched: Timing = UNAVAILABLE_TIMING
    timing_fenced: Timing = UNAVAILABLE_TIMING


@dataclass(frozen=True, slots=True)
class LaunchMethods:
    """The ways in which a bound plan can be launched.

    ``fenced`` are its steps on their devices, None where they cannot be fenced; ``finish`` waits for what it launched.
    ``run`` is a run like any other, up to a deadline. ``on_cpu`` runs the whole model on the CPU after an error, None
    where it may not. ``ended`` is called once, when nothing of the run uses the plan's memory any more.
    """

    fenced: Chained | None
    finish: Callable[[Sequence[Launched]], RunReport]
    run: Callable[[int], RunReport]
    on_cpu: Callable[[int, NnhalError], RunReport] | None
    ended: Callable[[], None]


class LaunchedRun:
    """A run that was launched. ``fence`` signals its end, and is in error where it failed."""

    def __init__(self) -> None:
        self._signal, self.fence = create_fence()
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending:
        """How it ended. Raises GENERAL_FAILURE until it has."""
        if self._ending is None:
            general_failure("the run has not ended yet")
        return self._ending

    def end(self, ending: Ending) -> None:
        """Say how it ended."""
        self._ending = ending
        if ending.error is None:
            self._signal.send()
        else:
            self._signal.fail()


def start_launched_run(
    ways: LaunchMethods, fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
) -> LaunchedRun:
    """Launch a run, to begin when the fences have signalled and to take ``duration_ns`` at most from then on.

    Raises HalError or TransportError where a device does not take its launch and the CPU may not stand in; what was
    launched before is then waited for.
    """
    try:
        run = LaunchedRun()
    except OSError:
        ways.ended()
        raise
    fenced = ways.fenced if len(fences) <= MAX_FENCES else None
    if fenced is None:
        _in_thread(run, ways, lambda: _plain(ways.run(_begin(fences, deadline_ns, duration_ns))))
        return run
    launched: list[Launched] = []
    try:
        fenced.launch(launched, fences, deadline_ns, duration_ns)
    except NnhalError as error:
        refusal, on_cpu = error, ways.on_cpu
        if fenced.has_failed(launched):  # it is no failure of the launch
            _in_thread(run, ways, lambda: Ending(error=fenced.failure(launched, refusal)))
            return run

        def settle() -> Ending:
            fenced.settle(launched)
            if on_cpu is None:
                return Ending(error=refusal)
            _log.info("a launch failed; the whole model runs on the CPU", reason=str(refusal))
            return _plain(on_cpu(_begin(fences, deadline_ns, duration_ns), refusal))

        _in_thread(run, ways, settle)
        if on_cpu is None:
            raise
        return run
    except BaseException:
        _in_thread(run, ways, lambda: _given_up(fenced, launched))
        raise
    _in_thread(run, ways, lambda: Ending(ways.finish(launched), None, *fenced.timings()))
    return run


def _given_up(fenced: Chained, launched: Sequence[Launched]) -> Ending:
    fenced.settle(launched)
    return Ending(error=HalError(ErrorStatus.GENERAL_FAILURE, "the launch was given up"))


def _plain(report: RunReport) -> Ending:
    """The end of a run that awaited nothing: both times are those of its only step."""
    if len(report.steps) != 1:
        return Ending(report)
    timing = Timing(report.steps[0].time_on_device_ns, report.steps[0].time_in_driver_ns)
    return Ending(report, None, timing, timing)


def _begin(fences: Sequence[Fence], deadline_ns: int, duration_ns: int) -> int:
    """Wait for the fences; the deadline of what begins then."""
    try:
        wait_for_all(fences, deadline_ns)
    except FenceError as error:
        general_failure(f"a fence that the run waits for failed: {error}")
    except TimeoutError as error:
        raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error
    if duration_ns == NO_DEADLINE:
        return deadline_ns
    end = _now_ns() + duration_ns
    return end if deadline_ns == NO_DEADLINE else min(deadline_ns, end)


def _in_thread(run: LaunchedRun, ways: LaunchMethods, work: Callable[[], Ending]) -> None:
    """Do the rest of a run in a thread of its own, and say how it ended."""

    def to_the_end() -> None:
        try:
            ending = work()
        except NnhalError as error:
            ending = Ending(error=error)
        except Exception:
            _log.exception("a launched run failed")
            defect = HalError(ErrorStatus.GENERAL_FAILURE, "the framework failed; its log says why")
            ending = Ending(error=defect)
        ways.ended()
        run.end(ending)

    threading.Thread(target=to_the_end, name="launched-run", daemon=True).start()


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
