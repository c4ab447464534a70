"""Asks all processes once a second, and tells who listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import or_

from nnhal.errors import NnhalError
from nnhal.remote.supervisor import SupervisorControl
from nnhal.threads import LastingThread
from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.events import faults_between
from nnhal_dashboard.monitoring.faults import FaultWatch
from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.history_file import HistoryFile
from nnhal_dashboard.monitoring.logbook import Logbook
from nnhal_dashboard.monitoring.pace import PaceWatch
from nnhal_dashboard.monitoring.plans import PlanBook
from nnhal_dashboard.monitoring.problems import problems_of
from nnhal_dashboard.monitoring.states import shown_at_work
from nnhal_dashboard.monitoring.targets import targets_of
from nnhal_dashboard.monitoring.traffic import TrafficWatch
from nnhal_dashboard.settings import CLIENT_NAME, DashboardSettings
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.counts import devices_at_work
from nnhal_pages.operating.observer import Answers, ProcessObserver
from nnhal_pages.operating.resources.runs import is_troubled
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess, Snapshot

_EVERY_SECONDS = 1.0
_SPREAD_SECONDS = 0.5
"""Over how much of a round the questions are spread."""
_ANSWER_SECONDS = 0.4
"""The time that a round waits; who answers later is in the next one."""
_CHANGE_SECONDS = 5.0
"""The time that a round waits for those who answered lately, if a page is to show what has just been changed."""
_WATCHED_SECONDS = 5.0
"""The time that after the last look details are still gathered."""
_ROUNDS = {Detail.CLIENTS: 3, Detail.RUNS: 1, Detail.PROCESSES: 2, Detail.SESSIONS: 2, Detail.DEVICES: 1}
"""One round in so many asks for a detail that is looked at."""
_MEMORY_ROUNDS = 4
"""One in so many asks processes for their memory, if somebody looks at anything."""
_UNWATCHED_ROUNDS = 10
"""One in so many does if nobody looks."""
_AT_WORK_SECONDS = 3.0
"""A device that has run executions within this time is not silent."""
_EVENTS_KEPT = 2000
_RUNS_KEPT, _TROUBLED_KEPT = 500, 100
"""The last runs that went well, which do not push out those that failed or fell back."""
_THREADS = 16


class Collector:
    """Keeps ``snapshot`` and ``history`` up to date from a thread of its own. Use it as a context.

    ``contacts`` are for questions and changes besides, ``logbook`` has what processes log, ``plans``
    those of models, ``traffic`` what flows, ``faults`` those of devices.
    """

    def __init__(self, settings: DashboardSettings, key: str = "") -> None:
        """``key`` is the admin key, if no supervisor says it."""
        self._settings = settings
        self._given_key = self._key = key
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ask")
        self._observers: dict[str, ProcessObserver] = {}
        self._supervisor: SupervisorControl | None = None
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._looked = float("-inf")
        self._looked_at = dict.fromkeys(Detail, float("-inf"))
        self._event = 0
        self._worked: dict[str, float] = {}
        """When each device was last known to run executions, by CLOCK_MONOTONIC."""
        self._asking: (
            Future[tuple[supervisor_pb2.ListProcessesResponse | None, list[supervisor_pb2.ProcessEvent], bool]] | None
        ) = None
        self._rounds = threading.Condition()
        self._begun = self._ended = self._wanted = self._patient = 0
        self._stopped = False
        self.history = History(HistoryFile(settings.history) if settings.history is not None else None)
        self.snapshot = Snapshot(events=tuple(self.history.kept_events))
        self.contacts = Contacts(settings.directory, lambda: self._key, lambda: self.snapshot, CLIENT_NAME)
        self.logbook = Logbook(self.contacts, lambda: self.snapshot)
        self.plans = PlanBook(self.contacts.framework)
        self.traffic = TrafficWatch(self.contacts.framework, self._pool.submit)
        self.faults = FaultWatch(self.contacts, self._pool.submit)
        self._paces = PaceWatch(self.history, self.traffic)
        self._thread = LastingThread(self._run, "collector")

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._rounds:
            self._stopped = True
            self._rounds.notify_all()
        self._thread.join()
        self.history.save()
        for observer in self._observers.values():
            observer.close()
        self._hang_up()
        self.contacts.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def listen(self, listener: Callable[[Snapshot], None]) -> None:
        """Call ``listener`` after each round, in the collector's thread. It must not raise."""
        self._listeners.append(listener)

    def watch(self, details: Detail = NO_DETAIL) -> None:
        """Have what is looked at gathered for a while, without waiting for it: these ``details``, and no others."""
        self._looked = time.monotonic()
        self._looked_at.update(dict.fromkeys(details, self._looked))

    def look(self, details: Detail = NO_DETAIL) -> Snapshot:
        """Return the latest snapshot for somebody who looks, perhaps at ``details``, which are gathered meanwhile.

        After a time in which nobody looked, the first look waits for the next round, so that details are there.
        """
        last = min([self._looked, *(self._looked_at[each] for each in details)])
        was_watched = time.monotonic() - last < _WATCHED_SECONDS
        self.watch(details)
        if was_watched:
            return self.snapshot
        if Detail.SESSIONS in details:  # which take a busy process longer than a round waits
            with self._rounds:
                self._patient = self._begun + 1
        return self._next_round(2 * _EVERY_SECONDS)

    def refresh(self) -> Snapshot:
        """Ask everybody now, and return what they say; called after something was changed.

        It waits for all but those who were silent already, since a page without script shows for good what is known.
        """
        self._looked = time.monotonic()
        with self._rounds:
            self._patient = self._begun + 1
        return self._next_round(4 * _CHANGE_SECONDS)

    def _next_round(self, seconds: float) -> Snapshot:
        with self._rounds:
            wanted = self._wanted = self._begun + 1  # the round that is under way may have asked before the change
            self._rounds.notify_all()
            self._rounds.wait_for(lambda: self._ended >= wanted or self._stopped, seconds)
        return self.snapshot

    def _run(self) -> None:
        while not self._stopped:
            began = time.monotonic()
            with self._rounds:
                self._begun += 1
            try:
                self._collect()
            finally:
                with self._rounds:
                    self._ended = self._begun
                    self._rounds.notify_all()
            with self._rounds:
                pause = max(0.0, began + _EVERY_SECONDS - time.monotonic())
                self._rounds.wait_for(lambda: self._stopped or self._wanted > self._begun, pause)

    def _collect(self) -> None:
        now = time.monotonic()
        wanted = reduce(or_, (detail for detail in Detail if self._is_due(detail, now)), NO_DETAIL)
        if self._patient >= self._begun:
            wanted |= Detail.SESSIONS
        rounds = _MEMORY_ROUNDS if now - self._looked < _WATCHED_SECONDS else _UNWATCHED_ROUNDS
        if self._begun % rounds == 0 or self._wanted >= self._begun:
            wanted |= Detail.PROCESSES
        patience = _CHANGE_SECONDS if self._patient >= self._begun else _ANSWER_SECONDS
        supervisor, events = self._supervisor_answer(patience)
        last = self.snapshot
        self._follow(supervisor, last.framework)
        fresh: list[Answers] = []
        if patience > _ANSWER_SECONDS:  # a question that is under way may have been asked before the change
            self._wait(patience)
            self._take(fresh)
        self._ask(wanted)
        self._wait(patience)
        processes = self._take(fresh)
        snapshot = self._snapshot(last, supervisor, events, processes, fresh)
        self.history.add(snapshot)
        self.traffic.add(snapshot)
        snapshot = replace(snapshot, problems=problems_of(snapshot, [*self._paces.look(snapshot)]))
        self.snapshot = snapshot
        for listener in self._listeners:
            listener(snapshot)

    def _is_due(self, detail: Detail, now: float) -> bool:
        is_turn = self._begun % _ROUNDS[detail] == 0 or self._wanted >= self._begun
        return is_turn and now - self._looked_at[detail] < _WATCHED_SECONDS

    def _wait(self, seconds: float) -> None:
        """Wait for the answers of all processes, but for those that seem to have been stopped."""
        wait([question for o in self._observers.values() if (question := o.awaited) is not None], seconds)

    def _take(self, fresh: list[Answers]) -> tuple[ObservedProcess, ...]:
        """Describe all processes as they are known now, and add what they have answered since to ``fresh``."""
        known = {id(o): o.answers for o in self._observers.values()}
        processes = tuple(observer.take() for observer in self._observers.values())
        fresh += [o.answers for o in self._observers.values() if o.answers is not known[id(o)]]
        return processes

    def _ask(self, wanted: Detail) -> None:
        """Ask all processes one after the other: if all answered at once, requests would wait for a processor.

        They are asked at once if somebody waits.
        """
        pause = _SPREAD_SECONDS / max(len(self._observers), 1)
        for observer in self._observers.values():
            if observer.ask(wanted):
                with self._rounds:
                    self._rounds.wait_for(lambda: self._stopped or self._wanted >= self._begun, pause)

    def _snapshot(
        self,
        last: Snapshot,
        supervisor: supervisor_pb2.ListProcessesResponse | None,
        events: list[supervisor_pb2.ProcessEvent],
        processes: tuple[ObservedProcess, ...],
        fresh: list[Answers],
    ) -> Snapshot:
        framework: framework_admin_pb2.GetFrameworkResponse | None = last.framework
        live, finished, recordings = last.live, last.finished, last.recordings
        for answers in fresh:
            if answers.framework is not None:
                framework = answers.framework
                events += answers.framework.events
            if answers.runs is not None:
                live = tuple(answers.runs.live)
                finished = tuple(continued(finished, answers.runs.finished))
                recordings = tuple(answers.runs.recordings)
        if framework is not None and last.framework is not None and framework is not last.framework:
            self._worked.update(dict.fromkeys(devices_at_work(last.framework, framework), time.monotonic()))
        recent = time.monotonic() - _AT_WORK_SECONDS
        at_work = [name for name, at in self._worked.items() if at > recent]
        processes = tuple(shown_at_work(process, at_work) for process in processes)
        host = next((process for process in processes if process.kind == "framework"), None)
        if host is None or not host.answers:
            live = ()
        snapshot = Snapshot(
            last.number + 1,
            time.time(),
            time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            supervisor,
            processes,
            framework,
            live,
            finished,
            recordings,
            last.events,
        )
        events += faults_between(last, snapshot)
        if events:
            # A supervisor that was lost for a moment tells again what it told before.
            seen = {(event.at_ns, event.subject, event.kind): event for event in (*last.events, *events)}
            merged = sorted(seen.values(), key=lambda event: event.at_ns)[-_EVENTS_KEPT:]
            snapshot = replace(snapshot, events=tuple(merged))
        return snapshot

    def _follow(
        self,
        supervisor: supervisor_pb2.ListProcessesResponse | None,
        framework: framework_admin_pb2.GetFrameworkResponse | None,
    ) -> None:
        """Observe the processes that there are now, and no others."""
        observers: dict[str, ProcessObserver] = {}
        for target in targets_of(self._settings, supervisor, framework):
            observer = self._observers.pop(target.name, None)
            if observer is not None and observer.target.directory != target.directory:
                observer.close()
                observer = None
            if observer is None:
                observer = ProcessObserver(target, self._key, self._pool, CLIENT_NAME)
            observer.target = target
            observers[target.name] = observer
        for observer in self._observers.values():
            observer.close()
        self._observers = observers

    def _supervisor_answer(
        self, patience: float
    ) -> tuple[supervisor_pb2.ListProcessesResponse | None, list[supervisor_pb2.ProcessEvent]]:
        """Return what the supervisor says; what it said last, if it does not answer in time."""
        is_early = self._asking is not None
        if self._asking is None:
            self._asking = self._pool.submit(self._ask_supervisor)
        if not wait([self._asking], patience).done:
            return self.snapshot.supervisor, []
        asking, self._asking = self._asking, None
        processes, events, is_new = asking.result()
        if is_new:
            for observer in self._observers.values():
                observer.close()
            self._observers = {}
        if is_early and patience > _ANSWER_SECONDS:  # it may have been asked before the change
            processes, more = self._supervisor_answer(patience)
            events += more
        return processes, events

    def _ask_supervisor(
        self,
    ) -> tuple[supervisor_pb2.ListProcessesResponse | None, list[supervisor_pb2.ProcessEvent], bool]:
        """Ask the supervisor; the last value says whether it is another one, with another key."""
        is_new = False
        try:
            if self._supervisor is not None and self._supervisor.gone:
                self._hang_up()
            if self._supervisor is None:
                self._supervisor = SupervisorControl(self._settings.directory, CLIENT_NAME, 2.0)
                self._key = self._supervisor.admin_key()
                self._event = 0
                is_new = True
            processes = self._supervisor.processes()
            events = self._supervisor.events(self._event)
            self._event = max([self._event, *(event.number for event in events)])
        except NnhalError:
            self._hang_up()
            self._key = self._given_key or self._key
            return None, [], False
        return processes, events, is_new

    def _hang_up(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            with suppress(NnhalError):
                supervisor.close()


def continued(
    known: Sequence[framework_admin_pb2.FinishedRun], more: Sequence[framework_admin_pb2.FinishedRun]
) -> list[framework_admin_pb2.FinishedRun]:
    """Add runs to those that are known, and drop the oldest. A framework that was started again counts anew."""
    if known and more and more[0].number <= known[-1].number:
        known = ()
    well, troubled = ([run for run in (*known, *more) if is_troubled(run) == which] for which in (False, True))
    return sorted([*well[-_RUNS_KEPT:], *troubled[-_TROUBLED_KEPT:]], key=lambda run: run.number)
