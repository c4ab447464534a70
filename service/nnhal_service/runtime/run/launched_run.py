"""Launched runs: they begin when fences have signalled, and signal a fence of their own at the end.

Steps that can be fenced are launched at once on their devices, which wait for the fences themselves. If one cannot be
launched, the run waits for the caller's fences and then runs the whole model on the CPU, if fallback is allowed; after
the launch nothing falls back. If the plan cannot be fenced, a thread waits for the fences and runs it as usual.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.fence import Fence, FenceError, WaitInterruptedError, create_fence, wait_for_all
from nnhal.threads import BriefThread
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, ErrorStatus, Timing
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import defect
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError
from nnhal_service.runtime.run.chained import MAX_FENCES, Chained, Launched, abort_launched
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.runtime.run.reports import RunReport

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a launched run: with a report or an error.

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
    """The caller's message about an error."""


class LaunchedRun:
    """A run that was launched. ``fence`` signals its end, and is in error if it failed."""

    def __init__(self, cancellation: Cancellation) -> None:
        self._cancellation = cancellation
        self._signal, self.fence = create_fence()
        self.launched_ns = now_ns()
        """When it was launched, by CLOCK_BOOTTIME."""
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending:
        """Return how the run ended. Raises GENERAL_FAILURE before its end."""
        if self._ending is None:
            general_failure("the run has not ended yet")
        return self._ending

    @property
    def has_ended(self) -> bool:
        """Return whether its fence has been signalled, or put into error."""
        return self._ending is not None

    def cancel(self) -> None:
        """Have it end as soon as possible: its fence is in error then, unless it has signalled."""
        self._cancellation.cancel()

    def end(self, ending: Ending) -> None:
        """Note how the run ended, and signal its fence."""
        self._ending = ending
        if ending.error is None:
            self._signal.send()
        else:
            self._signal.fail()


def start_launched_run(
    ways: LaunchMethods,
    fences: Sequence[Fence],
    deadline_ns: int,
    duration_ns: int,
    cancellation: Cancellation,
) -> LaunchedRun:
    """Launch a run that begins when the fences have signalled and may take ``duration_ns`` from then on.

    Its fence is in error soon after its deadline, or after a cancellation, whatever the devices do. Raises HalError or
    TransportError if a device refuses its launch and the CPU may not take over; the steps that were launched before are
    then waited for.
    """
    try:
        run = LaunchedRun(cancellation)
        limits = _Limits(fences, deadline_ns, duration_ns, cancellation)
    except OSError:
        ways.ended()
        raise
    fenced = ways.fenced if len(fences) <= MAX_FENCES else None
    if fenced is None:
        _in_thread(run, ways, limits, lambda: _plain(ways.run(limits.begin())))
        return run
    launched: list[Launched] = []
    try:
        fenced.launch(launched, fences, deadline_ns, duration_ns)
        cancellation.on_cancel(partial(abort_launched, launched))
    except NnhalError as error:
        refusal, on_cpu = error, ways.on_cpu
        if on_cpu is None and not launched:  # nothing is to be waited for: the caller may launch again at once
            ways.ended()
            raise
        if fenced.has_failed(launched):  # a step failed, not the launch
            _in_thread(run, ways, limits, lambda: Ending(error=fenced.failure(launched, refusal)))
            return run

        def settle() -> Ending:
            fenced.settle(launched)
            if on_cpu is None:
                return Ending(error=refusal)
            _log.info("a launch failed; the whole model runs on the CPU", reason=str(refusal))
            return _plain(on_cpu(limits.begin(), refusal))

        _in_thread(run, ways, limits, settle)
        if on_cpu is None:
            raise
        return run
    except BaseException:
        _in_thread(run, ways, limits, lambda: _abandoned(fenced, launched))
        raise
    _in_thread(run, ways, limits, lambda: Ending(ways.finish(launched), None, *fenced.timings()))
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


class _Limits:
    """Earliest begin and latest end of a launched run."""

    def __init__(self, fences: Sequence[Fence], deadline_ns: int, duration_ns: int, cancellation: Cancellation) -> None:
        """Raises OSError if no descriptor is left."""
        self._fences = fences
        self._deadline_ns = deadline_ns
        self._duration_ns = duration_ns
        self._cancellation = cancellation
        self._cancelled = Descriptor(os.eventfd(0, os.EFD_CLOEXEC))
        cancellation.on_cancel(lambda: os.eventfd_write(self._cancelled.fileno(), 1))

    @property
    def is_cancelled(self) -> bool:
        return self._cancellation.cancelled

    def begin(self) -> int:
        """Wait for the fences; return the deadline of the run that begins now. Raises HalError, CancelledRunError."""
        try:
            wait_for_all(self._fences, self._deadline_ns, self._cancelled.fileno())
        except WaitInterruptedError as error:
            raise CancelledRunError from error
        except FenceError as error:
            general_failure(f"a fence that the run waits for failed: {error}")
        except TimeoutError as error:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error
        if self._duration_ns == NO_DEADLINE:
            return self._deadline_ns
        end = now_ns() + self._duration_ns
        return end if self._deadline_ns == NO_DEADLINE else min(self._deadline_ns, end)

    def latest(self) -> int:
        """Wait until the run may begin if its end depends on that; return by when it must have ended.

        NO_DEADLINE if there is no limit, or if the run cannot begin, which the run itself will say.
        """
        if self._duration_ns == NO_DEADLINE:
            return self._deadline_ns
        try:
            return self.begin()
        except (HalError, CancelledRunError):
            return self._deadline_ns


def _in_thread(run: LaunchedRun, ways: LaunchMethods, limits: _Limits, work: Callable[[], Ending]) -> None:
    """Do the rest of a run in a thread of its own, and note how it ended."""

    def to_the_end(_: int) -> Ending:
        try:
            return work()
        finally:
            ways.ended()

    def by_its_deadline() -> None:
        try:
            ending = run_by_deadline(to_the_end, limits.latest())
        except NnhalError as error:
            cancelled = HalError(ErrorStatus.GENERAL_FAILURE, "the run was cancelled")
            ending = Ending(error=cancelled if limits.is_cancelled else error)
        except Exception as error:
            _log.exception("a launched run failed")
            ending = Ending(error=defect(error))
        if ending.error is not None:
            ending = replace(ending, error=ways.explained(ending.error))
        run.end(ending)

    BriefThread(by_its_deadline, "launched-run").start()
