"""The front workers of a framework: started, told what changes, started again when they die, and ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

from nnhal.link import channel_pair
from nnhal_hosting.logs import get_logger
from nnhal_hosting.restarted_process import RestartedProcess
from nnhal_hosting.supervision import Child, stop_all
from nnhal_hosting.zygote import Zygote
from nnhal_service.access import NumberTable
from nnhal_service.front_workers.interfaces import FrameworkModels, FrameworkRuns, WorkerDuties, WorkerStart
from nnhal_service.front_workers.peer import Peer, ServedInterface
from nnhal_service.front_workers.served_worker import ServedWorker
from nnhal_service.front_workers.traces import FrameworkTraces, WorkerTraces
from nnhal_service.observability import Tracer
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.observability.traces.tracer import TraceRules
from nnhal_service.repository import Repository
from nnhal_service.runtime.run.workers import Workers
from nnhal_service.serving import ServedModel, ServingError
from nnhal_service.serving.history.ended_runs import ProcessRuns
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.v2.backend import LogSetting

_MODULE = "nnhal_service.front_workers"
_IMPORTED = ("nnhal_service.front_workers.process", "nnhal_service.v2.http.services")
"""What a worker imports before it serves."""
_MOST_RUNS = 4096
"""Runs and bindings of workers at a time that are not direct."""
_MOST_CALLS = 64
"""Other calls of workers at a time; loading a model is one."""
_PATIENCE_SECONDS = 5.0
"""The time that a worker may take to answer, before what it is told counts as told."""
_BRIEF_SECONDS = 1.0
"""The time that a worker may take to say what it runs."""
_START_SECONDS = 60.0
_RECLAIM_SECONDS = 1.0
"""Seconds between two times at which kept memory is given back."""
_log = get_logger(__name__)
T = TypeVar("T")


class FrontWorkers:
    """Front workers, each a process with the same ports. Use as a context: entering starts them, leaving ends them.

    Safe to use from several threads.
    """

    def __init__(
        self,
        count: int,
        start: Callable[[int], WorkerStart],
        numbers: NumberTable,
        repository: Repository[ServedModel],
        metrics: RequestMetrics,
        tracer: Tracer,
        backends: Mapping[type, object],
        runs: FrameworkRuns,
        memory: InstanceMemory,
    ) -> None:
        """``start`` gives what a worker needs to know, by its column of ``numbers``. ``backends`` are what workers ask
        for everything but inferences, by interface. ``runs`` are what they keep for operators. ``memory`` counts the
        instances of this process.
        """
        self._count = count
        self._numbers = numbers
        self._start = start
        self._repository = repository
        self._metrics = metrics
        self._tracer = tracer
        self._backends = backends
        self._framework_runs = runs
        self._memory = memory
        self._next_reclaim = 0.0
        self._runs = Workers(_MOST_RUNS, "front-run")
        self._calls = Workers(_MOST_CALLS, "front-call")
        self._lock = threading.Lock()
        self._peers: dict[Peer, int] = {}  # with their columns
        self._processes: list[RestartedProcess] = []
        self._zygote = Zygote(_IMPORTED)

    def __enter__(self) -> FrontWorkers:
        with ExitStack() as undo:
            undo.callback(self._stop)
            for number in range(self._count):
                name = f"front {number}"
                restarted = RestartedProcess(name, partial(self._launch, number), partial(_log_change, name))
                self._processes.append(restarted)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def wait_until_ready(self) -> None:
        """Wait until all workers serve. Raises StartError if one does not."""
        for restarted in self._processes:
            restarted.keep(_START_SECONDS)

    def changed(self, name: str) -> None:
        """Tell all workers which versions of a model serve; returns when none of them uses another for new requests."""
        serials = self._repository.serials(name)
        self._notify(lambda peer: peer.begin(WorkerDuties.changed, name, serials))

    def trace_changed(self, rules: TraceRules) -> None:
        self._notify(lambda peer: peer.begin(WorkerDuties.trace_changed, rules))

    def log_changed(self, settings: Mapping[str, LogSetting]) -> None:
        self._notify(lambda peer: peer.begin(WorkerDuties.log_changed, settings))

    def drain(self, drain: bool) -> None:
        """Have all workers take no new requests, or take them again."""
        self._notify(lambda peer: peer.begin(WorkerDuties.drain, drain))

    def record(self, models: Collection[str]) -> None:
        self._notify(lambda peer: peer.begin(WorkerDuties.record, models))

    def runs(self) -> Mapping[int, ProcessRuns]:
        """As OtherProcesses; the numbers are those of the workers' columns."""
        answers: dict[int, ProcessRuns] = {}
        for column, wait in self._begun(lambda peer: peer.begin(WorkerDuties.runs)):
            with suppress(TimeoutError, ServingError):
                answers[column] = wait(_BRIEF_SECONDS)
        return answers

    def cancel_request(self, process: int, number: int) -> bool | None:
        """As OtherProcesses."""
        with self._lock:
            asked = [peer for peer, column in self._peers.items() if column == process]
        with suppress(TimeoutError, ServingError):
            for peer in asked:
                return peer.begin(WorkerDuties.cancel_request, number)(_PATIENCE_SECONDS)
        return None

    def collect(self) -> None:
        """Have all workers report what they have counted."""
        self._notify(lambda peer: peer.begin(WorkerDuties.report))

    def reclaim(self) -> None:
        """Begin to have all processes give back the memory that they keep for later requests.

        Nothing begins if that has just been done: overload must not cost all processes their time as well.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._next_reclaim:
                return
            self._next_reclaim = now + _RECLAIM_SECONDS
        with suppress(RuntimeError):  # the workers are being ended
            self._calls.submit(self._reclaim)

    def _reclaim(self) -> None:
        self._memory.reclaim_all()
        self._notify(lambda peer: peer.begin(WorkerDuties.reclaim))

    def _notify(self, begin: Callable[[Peer], Callable[[float | None], None]]) -> None:
        """Tell all workers at once, and wait until they have done it."""
        for _, wait in self._begun(begin):
            try:
                wait(_PATIENCE_SECONDS)
            except TimeoutError:
                _log.warning("a front worker does not answer", seconds=_PATIENCE_SECONDS)
            except ServingError:
                continue

    def _begun(self, begin: Callable[[Peer], Callable[[float | None], T]]) -> list[tuple[int, Callable[[float], T]]]:
        """Begin a call of each worker; returns their columns, with what waits for their results."""
        with self._lock:
            peers = list(self._peers.items())
        begun: list[tuple[int, Callable[[float], T]]] = []
        for peer, column in peers:
            with suppress(ServingError):  # it has just died
                begun.append((column, begin(peer)))
        return begun

    def _launch(self, column: int) -> Child:
        channel, theirs = channel_pair()
        served_worker = ServedWorker(self._repository, self._metrics, lambda: self._begin(peer, column), self.reclaim)
        served = {interface: ServedInterface(target, self._calls) for interface, target in self._backends.items()}
        served[FrameworkModels] = ServedInterface(served_worker, self._runs)
        traces = WorkerTraces(self._tracer)
        served[FrameworkTraces] = ServedInterface(traces, self._runs)
        served[FrameworkRuns] = ServedInterface(self._framework_runs, self._runs)

        def gone() -> None:
            with self._lock:
                self._peers.pop(peer, None)
            self._numbers.clear(column)
            served_worker.close()
            traces.close()

        peer = Peer(channel, served, gone)
        peer.start()
        arguments = ["--framework", str(theirs.fileno())]
        try:
            return Child(_MODULE, arguments, inherited=[theirs.fileno()], zygote=self._zygote)
        except BaseException:
            peer.close()
            raise

    def _begin(self, peer: Peer, column: int) -> WorkerStart:
        """Begin to tell a worker what changes: before, it holds nothing."""
        with self._lock:
            self._peers[peer] = column
        return self._start(column)

    def _stop(self) -> None:
        stop_all([restarted.leave() for restarted in self._processes])
        self._processes.clear()
        self._zygote.close()
        with self._lock:
            peers = list(self._peers)
        for peer in peers:
            peer.close()
        self._calls.shutdown()
        self._runs.shutdown(wait=False)  # a run may wait for a device that has stopped


def _log_change(name: str, _: str, text: str) -> None:
    _log.warning(f"{name}: {text}")
