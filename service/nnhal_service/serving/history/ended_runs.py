"""The requests and the runs of native clients that have ended, until somebody takes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappush, heapreplace
from operator import attrgetter
from random import random
from typing import NamedTuple, Protocol

from nnhal.reports import CopiedBytes
from nnhal_service.runtime import RunReport
from nnhal_service.serving.errors import ErrorKind
from nnhal_service.serving.history.live_requests import LiveRequest
from nnhal_service.serving.history.observer import FailureReason, Finished, OfRequests
from nnhal_service.serving.requests.request import InferenceRequest, RequestTiming

RUNS_KEPT = 500
"""The ended runs that are kept for those who ask later."""
TROUBLED_KEPT = 100
"""Those that failed or fell back, which are kept beside the others: under load these would soon push them out."""
QUIET_SECONDS = 10.0
"""What happens to a model again and again is noted once in this time."""
_OVERLOAD = frozenset({ErrorKind.UNAVAILABLE, ErrorKind.RESOURCE_EXHAUSTED})
ALL_MODELS = ""
"""In place of the name of a model: all of them."""

MINUTE_NS = 60 * 10**9
SLOW, TROUBLED, SAMPLED = "slow", "troubled", "sampled"
KEPT_OF_MINUTE = {SLOW: 8, TROUBLED: 20, SAMPLED: 4}
"""The number of runs of a model and a minute that are kept, by the reason to keep them."""
_MOST_OVER = 1000
"""Minutes of models that are over and wait to be taken; older ones are dropped."""


class EndedRun(NamedTuple):
    """A request, or a run of a native client, that has ended. It refers to no memory of its tensors."""

    model: str
    version: str
    """Empty for a model of a session."""
    client: str
    """Who asked for it; empty if that is unknown."""
    request_id: str
    """The id that the client gave it, empty if none."""
    arrived_ns: int
    """An instant of CLOCK_MONOTONIC, as ``ended_ns``."""
    ended_ns: int
    timing: RequestTiming | None
    """The instants between its parts; None if it failed, and for a run of a native client, which has no parts."""
    batch_size: int
    devices: str
    """Operations by device, such as ``cpu_acc:3,cpu_ref:1``, or devices alone; empty if unknown."""
    copied: CopiedBytes
    """What was copied in its run: for a request that of its whole batch."""
    fell_back: bool
    error: str
    """Why it failed; empty if it succeeded."""
    recording: int = 0
    """The number of a recording that has it; 0 for none."""
    report: RunReport | None = None
    """The report of its run, if it is recorded."""
    trace_id: str = ""
    """The client's trace; empty if it has none."""

    @property
    def is_troubled(self) -> bool:
        """Return whether it failed or fell back."""
        return self.fell_back or bool(self.error)


class ChosenRun(NamedTuple):
    """A run that is kept, unless others of its model, minute and reason have a higher rank."""

    reason: str
    """A key of KEPT_OF_MINUTE."""
    rank: float
    run: EndedRun


class _Kept:
    """A run that is kept at this moment."""

    __slots__ = ("rank", "run")

    def __init__(self, rank: float, run: EndedRun) -> None:
        self.rank = rank
        self.run: EndedRun | None = run
        """None once it has been taken: then only its rank counts."""

    def __lt__(self, other: _Kept) -> bool:
        return self.rank < other.rank


class ModelMinute:
    """The runs of a model and a minute that are kept, as heaps by the reason to keep them."""

    __slots__ = ("ends_ns", "kept", "minute", "sampled", "slow_ns")

    def __init__(self, minute: int, ends_ns: int) -> None:
        self.minute = minute
        self.ends_ns = ends_ns
        """By CLOCK_MONOTONIC, as the instants of runs."""
        self.slow_ns, self.sampled = -1, -1.0
        """A run that took no longer, and one that draws no more, is not kept for its time or for the sample."""
        self.kept: dict[str, list[_Kept]] = {reason: [] for reason in KEPT_OF_MINUTE}

    def add(self, reason: str, rank: float, run: EndedRun) -> None:
        """Keep a run, unless there are enough of a higher rank."""
        kept = self.kept[reason]
        if len(kept) < KEPT_OF_MINUTE[reason]:
            heappush(kept, _Kept(rank, run))
        elif rank > kept[0].rank:
            heapreplace(kept, _Kept(rank, run))
        if len(kept) == KEPT_OF_MINUTE[reason]:
            if reason == SLOW:
                self.slow_ns = int(kept[0].rank)
            elif reason == SAMPLED:
                self.sampled = kept[0].rank

    def take(self) -> Iterator[ChosenRun]:
        """Yield the runs that are kept and were not taken before."""
        for reason, each in ((reason, each) for reason, kept in self.kept.items() for each in kept):
            if each.run is not None:
                yield ChosenRun(reason, each.rank, each.run)
                each.run = None


class MinuteRuns:
    """Chooses runs as they end. Safe to use from several threads.

    A minute of a model with n runs chooses about 8 ln(n) of them, so whoever adds runs asks ``models`` first whether
    one can be chosen. It holds those that are kept at the moment, until they are taken. The choices of several
    processes are merged by rank.
    """

    def __init__(self) -> None:
        self._shift_ns = time.time_ns() - time.monotonic_ns()
        self._lock = threading.Lock()
        self.models: dict[str, ModelMinute] = {}
        """The present minute of each model that has had runs lately."""
        self._over: list[ModelMinute] = []
        """Minutes that were over before their runs were taken."""

    def add(self, run: EndedRun, drawn: float) -> None:
        """Keep a run if it is one of the slowest, has failed, or ``drawn``, a random number, is high."""
        with self._lock:
            known = self.models.get(run.model)
            if known is None or run.ended_ns >= known.ends_ns:
                known = self._begin(run.model, run.ended_ns)
            if run.is_troubled:
                known.add(TROUBLED, -run.ended_ns, run)
            known.add(SLOW, run.ended_ns - run.arrived_ns, run)
            known.add(SAMPLED, drawn, run)

    def take(self) -> list[ChosenRun]:
        """Return the runs that are kept and were not taken before."""
        with self._lock:
            taken = [each for minute in (*self._over, *self.models.values()) for each in minute.take()]
            self._over.clear()
            now = (time.monotonic_ns() + self._shift_ns) // MINUTE_NS
            for model in [model for model, known in self.models.items() if known.minute < now - 1]:
                del self.models[model]
        return taken

    def _begin(self, model: str, at_ns: int) -> ModelMinute:
        before = self.models.get(model)
        if before is not None:
            self._over = [*self._over, before][-_MOST_OVER:]
        minute = (at_ns + self._shift_ns) // MINUTE_NS
        begun = self.models[model] = ModelMinute(minute, (minute + 1) * MINUTE_NS - self._shift_ns)
        return begun


class RunLog(Protocol):
    """Keeps the runs of native clients. Safe to use from several threads; it should be quick, and must not raise."""

    def keep(self, run: EndedRun) -> None:
        """Keep a run that has ended. Its report is given if it was measured, or fell back."""


class Recorder(Protocol):
    """Destination of recorded runs: to ``RunRecordings``, or to the process that has them."""

    @property
    def recorded(self) -> Collection[str]:
        """The models whose runs are to be measured, with ALL_MODELS for all."""

    def take(self, run: EndedRun) -> EndedRun | None:
        """Take a run that was measured, or has failed; returns what the log is to keep of it, None for nothing."""


class EndedRuns(OfRequests):
    """A sampler of the runs of served models, and the log of native clients' runs. Safe to use from several threads.

    It keeps the last RUNS_KEPT runs that went well and the last TROUBLED_KEPT others until they are taken. A run costs
    it one entry of a queue; everything else is done when somebody asks.
    """

    def __init__(
        self,
        recorder: Recorder,
        fell_back: Callable[[str, Sequence[str]], None],
        overloaded: Callable[[str, str], None],
    ) -> None:
        """``fell_back`` is called for each run that fell back: its model, and the devices that had failed.

        ``overloaded`` is called, once in some seconds, for a model that refuses requests since there are too many.
        """
        self._recorder = recorder
        self._fell_back = fell_back
        self._overloaded = overloaded
        self.trace_id: Callable[[], str] = str
        """Returns the client's trace of the request that is served in this context; empty if it has none."""
        self._minutes = MinuteRuns()
        self._reported: dict[str, float] = {}
        """When each model was last told to be overloaded, by CLOCK_MONOTONIC."""
        self._ended: deque[EndedRun] = deque(maxlen=RUNS_KEPT)
        self._troubled: deque[EndedRun] = deque(maxlen=TROUBLED_KEPT)

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        recorded = self._recorder.recorded
        return bool(recorded) and (model_name in recorded or ALL_MODELS in recorded)

    def finished(self, finished: Finished) -> None:
        report, error = finished.report, finished.error
        if report is not None and report.fell_back:
            self._fell_back(finished.model_name, report.failed_devices)
        if error is not None and finished.reason is FailureReason.REJECTED and error.kind in _OVERLOAD:
            self._note_overload(finished.model_name, error.message)
        run = EndedRun(
            finished.model_name,
            finished.model_version,
            finished.client,
            finished.request.id,
            finished.arrived_ns,
            finished.ended_ns,
            finished.timing,
            finished.batch_size,
            finished.devices,
            finished.copied,
            report is not None and report.fell_back,
            "" if error is None else error.message,
            trace_id=self.trace_id(),
        )
        if self._recorder.recorded:
            self._keep(run._replace(report=report))
            return
        # A call less for each request: hardly one is among the slowest of its minute.
        troubled = run.fell_back or error is not None
        (self._troubled if troubled else self._ended).append(run)
        minute, ended_ns, drawn = self._minutes.models.get(run.model), run.ended_ns, random()
        is_usual = minute is not None and ended_ns < minute.ends_ns and ended_ns - run.arrived_ns <= minute.slow_ns
        if troubled or not is_usual or (minute is not None and drawn > minute.sampled):
            self._minutes.add(run, drawn)

    def _note_overload(self, model: str, why: str) -> None:
        now = time.monotonic()
        if now - self._reported.get(model, float("-inf")) >= QUIET_SECONDS:
            self._reported[model] = now
            self._overloaded(model, why)

    def keep(self, run: EndedRun) -> None:
        if run.fell_back and run.report is not None:
            self._fell_back(run.model, run.report.failed_devices)
        self._keep(run)

    def take(self) -> list[EndedRun]:
        """The runs that have ended since the last call, the oldest first, without those that are too many."""
        taken = []
        for ended in (self._ended, self._troubled):
            while ended:
                taken.append(ended.popleft())
        return sorted(taken, key=attrgetter("ended_ns"))

    def take_chosen(self) -> list[ChosenRun]:
        """The runs of the last minutes that are kept for a day, as far as they were chosen since the last call."""
        return self._minutes.take()

    def _keep(self, run: EndedRun) -> None:
        """Keep a run; one of a model that is recorded goes to the recorder, if it was measured or has failed."""
        recorded, report = self._recorder.recorded, run.report
        was_measured = report is not None and report.started_ns >= 0
        kept: EndedRun | None
        if (was_measured or run.error) and (run.model in recorded or ALL_MODELS in recorded):
            kept = self._recorder.take(run)
        else:
            kept = run._replace(report=None) if report is not None else run
        if kept is not None:
            self._append(kept)

    def _append(self, run: EndedRun) -> None:
        (self._troubled if run.is_troubled else self._ended).append(run)
        self._minutes.add(run, random())


class ProcessRuns(NamedTuple):
    """The requests of a process that serves for the framework."""

    live: Sequence[LiveRequest]
    """Those that wait and run."""
    ended: Sequence[EndedRun]
    """Those that have ended since the last question, with instants of the same clock."""
    chosen: Sequence[ChosenRun] = ()
    """Those of them, and others, that are kept for a day."""


class OtherProcesses(Protocol):
    """The processes that serve for the framework. Safe to use from several threads."""

    def runs(self) -> Mapping[int, ProcessRuns]:
        """Ask all of them, by their numbers; one that does not answer is left out."""

    def cancel_request(self, process: int, number: int) -> bool | None:
        """Cancel a request, as ``LiveRequests.cancel`` does."""
