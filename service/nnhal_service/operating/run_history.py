"""The runs that have ended, of all processes that serve, with numbers; and the requests that wait and run in them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from nnhal.clock import boottime_shift
from nnhal.threads import LastingThread
from nnhal.v1.framework_admin_pb2 import FindRunsRequest, FinishedRun
from nnhal.whole_numbers import whole_number
from nnhal_service.operating.finished_run import finished_to_wire
from nnhal_service.operating.run_archive import ArchivedRun, RunArchive
from nnhal_service.serving.history.ended_runs import RUNS_KEPT, TROUBLED_KEPT, EndedRun, OtherProcesses
from nnhal_service.serving.history.live_requests import LiveRequest
from nnhal_service.serving.models.monitor import ServingMonitor

_ARCHIVE_SECONDS = 5.0
"""A framework that is killed loses the runs of this time."""
_OWN = "r"
_OTHER = "w"


class NamedRequest(NamedTuple):
    """A request that waits or runs, and its public id."""

    id: str
    request: LiveRequest


class NumberedRun(NamedTuple):
    """A run that has ended. Numbers count the runs that were kept, from 1 on."""

    number: int
    run: EndedRun


class RunHistory:
    """Collects the runs of this process and of others when somebody asks, and has those of a day archived meanwhile.

    Use it as a context. Safe to use from several threads.
    """

    def __init__(
        self, monitor: ServingMonitor, processes: Callable[[], OtherProcesses | None], archive: RunArchive
    ) -> None:
        """``processes`` returns the others that serve for this one."""
        self._monitor = monitor
        self._processes = processes
        self._archive = archive
        self._ends = threading.Event()
        self._thread = LastingThread(self._keep_archiving, "run-archive")
        self._lock = threading.Lock()
        self._last = 0
        self._kept: deque[NumberedRun] = deque(maxlen=RUNS_KEPT)
        self._troubled: deque[NumberedRun] = deque(maxlen=TROUBLED_KEPT)

    def __enter__(self) -> RunHistory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self.look()

    def _keep_archiving(self) -> None:
        while not self._ends.wait(_ARCHIVE_SECONDS):
            self.look()

    def find(self, request: FindRunsRequest) -> list[FinishedRun]:
        """Return runs of the last day. Raises as ``RunArchive.find`` does."""
        self.look()
        return self._archive.find(request)

    def look(self) -> list[NamedRequest]:
        """Take the runs that have ended meanwhile, and return the requests that wait and run, the oldest first."""
        with self._lock:
            live = [
                NamedRequest(f"{_OWN}{each.number}", each)
                for model in self._monitor.models.all()
                for each in model.live.list()
            ]
            ended, chosen = self._monitor.log.take(), self._monitor.log.take_chosen()
            others = self._processes()
            for process, runs in others.runs().items() if others is not None else ():
                live += [NamedRequest(f"{_OTHER}{process}.{_OWN}{each.number}", each) for each in runs.live]
                ended += runs.ended
                chosen += runs.chosen
            numbers: dict[int, int] = {}
            for run in sorted(ended, key=_end):
                self._last += 1
                numbers[id(run)] = self._last
                (self._troubled if run.is_troubled else self._kept).append(NumberedRun(self._last, run))
            for _, _, run in chosen:  # those that were too many for the list
                if id(run) not in numbers:
                    self._last += 1
                    numbers[id(run)] = self._last
            shift = boottime_shift()
            self._archive.add(
                ArchivedRun(reason, rank, finished_to_wire(numbers[id(run)], run, shift))
                for reason, rank, run in chosen
            )
        return sorted(live, key=_arrival)

    def after(self, number: int, model: str = "", most: int = 0) -> list[NumberedRun]:
        """The runs that had ended at the last look, after the one of a number; of one model, or of all.

        Of those that went well at most so many, the newest; all with 0.
        """
        with self._lock:
            troubled, kept = (
                [each for each in runs if each.number > number and model in ("", each.run.model)]
                for runs in (self._troubled, self._kept)
            )
        return sorted((*troubled, *kept[-most:]), key=attrgetter("number"))

    def cancel(self, name: str) -> bool | None:
        """Cancel a request by its public id; returns whether it was waiting, and None if there is none of that id."""
        process, _, rest = name.rpartition(".")
        number = whole_number(rest.removeprefix(_OWN))
        if not rest.startswith(_OWN) or number is None:
            return None
        if not process:
            return _first(model.live.cancel(number) for model in self._monitor.models.all())
        others, column = self._processes(), whole_number(process.removeprefix(_OTHER))
        if others is None or not process.startswith(_OTHER) or column is None:
            return None
        return others.cancel_request(column, number)


def _first(answers: Iterable[bool | None]) -> bool | None:
    return next((answer for answer in answers if answer is not None), None)


def _end(run: EndedRun) -> int:
    return run.ended_ns


def _arrival(named: NamedRequest) -> int:
    return named.request.since_ns
