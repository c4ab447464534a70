"""Launched runs: they begin when fences have signalled, and signal a fence of their own at the end.

Steps that can be fenced are launched at once on their devices, which wait for the fences themselves. If one cannot be
launched, the run waits for the caller's fences and then runs the whole model on the CPU, if fallback is allowed; after
the launch nothing falls back. If the plan cannot be fenced, a thread waits for the fences and runs it as usual.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.fence import Fence, FenceError, create_fence, wait_for_all
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, ErrorStatus, Timing
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import defect
from nnhal_service.runtime.run.chained import MAX_FENCES, Chained, Launched
from nnhal_service.runtime.run.reports import RunReport

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a launched run ended: with a report or an error.

    ``timing_launched`` is from the launch to the end, ``timing_fenced`` from the last awaited fence; both are
    available only if the plan has one step and the binding measures.
    """

    report: RunReport | None = None
    error: NnhalError | None = None
    timing_launched: Timing = UNAVAILABLE_TIMING
    timing_fenced: Timing = UNAVAILABLE_TIMING


@dataclass(frozen=True, slots=True)
class LaunchMethods:
    """The methods by which a bound plan can be launched."""

    fenced: Chained | None
    """The steps on their devices; None if they cannot be fenced."""
    finish: Callable[[Sequence[Launched]], RunReport]
    """Waits for the steps that ``fenced`` launched."""
    run: Callable[[int], RunReport]
    """Runs the plan as usual, up to a deadline."""
    on_cpu: Callable[[int, NnhalError], RunReport] | None
    """Runs the whole model on the CPU after an error; None if fallback is not allowed."""
    ended: Callable[[], None]
    """Called once, when the run no longer uses the plan's memory."""
    explained: Callable[[NnhalError], NnhalError] = lambda error: error
    """What the caller is told of an error."""


class LaunchedRun:
    """A run that was launched. ``fence`` signals its end, and is in error if it failed."""

    def __init__(self) -> None:
        self._signal, self.fence = create_fence()
        self.launched_ns = _now_ns()
        """When it was launched, by CLOCK_BOOTTIME."""
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending:
        """How the run ended. Raises GENERAL_FAILURE before its end."""
        if self._ending is None:
            general_failure("the run has not ended yet")
        return self._ending

    @property
    def has_ended(self) -> bool:
        """Whether its fence has been signalled, or put into error."""
        return self._ending is not None

    def end(self, ending: Ending) -> None:
        """Note how the run ended, and signal its fence."""
        self._ending = ending
        if ending.error is None:
            self._signal.send()
        else:
            self._signal.fail()


def start_launched_run(
    ways: LaunchMethods, fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
) -> LaunchedRun:
    """Launch a run that begins when the fences have signalled and may take ``duration_ns`` from then on.

    Raises HalError or TransportError if a device refuses its launch and the CPU may not take over; the steps that were
    launched before are then waited for.
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
        if on_cpu is None and not launched:  # nothing is to be waited for: the caller may launch again at once
            ways.ended()
            raise
        if fenced.has_failed(launched):  # a step failed, not the launch
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
        _in_thread(run, ways, lambda: _abandoned(fenced, launched))
        raise
    _in_thread(run, ways, lambda: Ending(ways.finish(launched), None, *fenced.timings()))
    return run


def _abandoned(fenced: Chained, launched: Sequence[Launched]) -> Ending:
    fenced.settle(launched)
    return Ending(error=HalError(ErrorStatus.GENERAL_FAILURE, "the launch was abandoned"))


def _plain(report: RunReport) -> Ending:
    """The end of a run without fences: both timings are those of its only step."""
    if len(report.steps) != 1:
        return Ending(report)
    timing = Timing(report.steps[0].time_on_device_ns, report.steps[0].time_in_driver_ns)
    return Ending(report, None, timing, timing)


def _begin(fences: Sequence[Fence], deadline_ns: int, duration_ns: int) -> int:
    """Wait for the fences; return the deadline of the run that begins now."""
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
    """Do the rest of a run in a thread of its own, and note how it ended."""

    def to_the_end() -> None:
        try:
            ending = work()
        except NnhalError as error:
            ending = Ending(error=error)
        except Exception as error:
            _log.exception("a launched run failed")
            ending = Ending(error=defect(error))
        if ending.error is not None:
            ending = replace(ending, error=ways.explained(ending.error))
        ways.ended()
        run.end(ending)

    threading.Thread(target=to_the_end, name="launched-run", daemon=True).start()


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
