"""The front workers of a framework: started, informed of changes, started again when they die, and ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec

from nnhal.link import channel_pair
from nnhal_hosting.logs import get_logger
from nnhal_hosting.restarted_process import RestartedProcess
from nnhal_hosting.supervision import Child, stop_all
from nnhal_hosting.zygote import Zygote
from nnhal_service.access import NumberTable
from nnhal_service.front_workers.peer import Peer, begin
from nnhal_service.front_workers.process import FrontWorkerProcess
from nnhal_service.front_workers.served_worker import HELD, ServedWorker, WorkerStart
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.repository import Repository
from nnhal_service.runtime.run.workers import Workers
from nnhal_service.serving import ServedModel, ServingError
from nnhal_service.serving.history.ended_runs import ProcessRuns
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.instances.instance_memory import InstanceMemory

_MODULE = "nnhal_service.front_workers"
_IMPORTED = ("nnhal_service.front_workers.process", "nnhal_service.v2.http.services")
"""What a worker imports before it serves."""
_MOST_CALLS = 4096
"""Calls of workers at a time: runs and bindings that are not direct, and loading a model."""
_PATIENCE_SECONDS = 5.0
"""The time to wait for a worker's answer. A message without one counts as received."""
_BRIEF_SECONDS = 1.0
"""The time that a worker may take to say what it runs."""
_START_SECONDS = 60.0
_RECLAIM_SECONDS = 1.0
"""Seconds between two times at which kept memory is given back."""
_log = get_logger(__name__)
P = ParamSpec("P")


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
        backends: Mapping[type, object],
        memory: InstanceMemory,
        refused: RefusedCalls,
    ) -> None:
        """``start`` gives what a worker needs to know, by its column of ``numbers``. ``backends`` are what workers ask
        for everything but inferences, by interface. ``memory`` counts the instances of this process, ``refused`` the
        calls that workers refuse.
        """
        self._count = count
        self._numbers = numbers
        self._start = start
        self._repository = repository
        self._metrics = metrics
        self._backends = backends
        self._memory = memory
        self._refused = refused
        self._next_reclaim = 0.0
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
        self.tell(FrontWorkerProcess.changed, name, self._repository.serials(name))

    def tell(
        self, method: Callable[Concatenate[FrontWorkerProcess, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Call a method of all workers at once, and wait until they have done it."""
        for _, told in self._begun(method.__name__, *args, **kwargs):
            try:
                told.result(_PATIENCE_SECONDS)
            except TimeoutError:
                _log.warning("a front worker does not answer", seconds=_PATIENCE_SECONDS)
            except ServingError:
                continue

    def runs(self) -> Mapping[int, ProcessRuns]:
        """As OtherProcesses; the numbers are those of the workers' columns."""
        answers: dict[int, ProcessRuns] = {}
        for column, answer in self._begun("runs"):
            with suppress(TimeoutError, ServingError):
                answers[column] = answer.result(_BRIEF_SECONDS)
        return answers

    def cancel_request(self, process: int, number: int) -> bool | None:
        """As OtherProcesses."""
        with self._lock:
            asked = [peer for peer, column in self._peers.items() if column == process]
        with suppress(TimeoutError, ServingError):
            for peer in asked:
                worker: FrontWorkerProcess = peer.remote(FrontWorkerProcess)
                return begin(worker.cancel_request, number).result(_PATIENCE_SECONDS)
        return None

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
        self.tell(FrontWorkerProcess.reclaim)

    def _begun(self, method: str, *args: object, **kwargs: object) -> list[tuple[int, Future[Any]]]:
        """Begin a call of each worker; returns their columns, with the answers."""
        with self._lock:
            peers = list(self._peers.items())
        begun = []
        for peer, column in peers:
            with suppress(ServingError):  # it has just died
                begun.append((column, begin(getattr(peer.remote(FrontWorkerProcess), method), *args, **kwargs)))
        return begun

    def _launch(self, column: int) -> Child:
        channel, theirs = channel_pair()
        served_worker = ServedWorker(
            self._repository, self._metrics, lambda: self._begin(peer, column), self.reclaim, self._refused
        )

        def gone() -> None:
            with self._lock:
                self._peers.pop(peer, None)
            self._numbers.clear(column)

        peer = Peer(channel, self._calls, gone, HELD)
        peer.serve({**self._backends, ServedWorker: served_worker})
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
        self._calls.shutdown(wait=False)  # a run may wait for a device that has stopped


def _log_change(name: str, _: str, text: str) -> None:
    _log.warning(f"{name}: {text}")
