"""The process of a front worker, and the small parts of the framework that it asks for what all workers share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from nnhal.descriptor import Descriptor
from nnhal.link.channel import channel_from
from nnhal.threads import LastingThread
from nnhal_hosting.listener_watch import asks_grpc
from nnhal_hosting.logs import configure_logs
from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_service.access import ClientRates, NumberTable, RequestMemoryBudget
from nnhal_service.allocator import FreedMemory
from nnhal_service.front_workers.forwarding_model import ForwardingModel
from nnhal_service.front_workers.peer import Peer, without_answer
from nnhal_service.front_workers.repository import RemoteRepository
from nnhal_service.front_workers.served_worker import (
    HTTP_CONNECTIONS,
    REQUEST_BYTES,
    OpenedVersion,
    ServedWorker,
    WorkerStart,
)
from nnhal_service.observability import RequestLog, RuntimeLogSettings, Tracer, metrics_options
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.observability.request_scope import current_trace_id
from nnhal_service.observability.traces.tracer import TraceRules, TraceSampler
from nnhal_service.protocol_servers import ServerBackends, grpc_server, http_server, instance_memory_of
from nnhal_service.protocol_settings import GRPC, HTTP, guard_of, listener_of, repository_options, tls_of
from nnhal_service.runtime.run.workers import Workers
from nnhal_service.serving import Observer, RequestServer, ServingLoop
from nnhal_service.serving.history.ended_runs import EndedRun, EndedRuns, ProcessRuns
from nnhal_service.serving.history.observer import Sampler
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.models.monitor import ServingMonitor
from nnhal_service.v2.backend import LogSetting, LogSettings, ModelRepository, SharedMemory, TraceSettings
from nnhal_service.v2.grpc.health import ModelHealth

_REPORT_SECONDS = 0.25
_MOST_DUTIES = 16
"""Calls of the framework that are answered at a time."""


class RemoteRecorder:
    """The Recorder of a front worker: the framework keeps its runs. Safe to use from several threads."""

    def __init__(self, keep: Callable[[EndedRun], None], recorded: Collection[str]) -> None:
        self._keep = keep
        self.recorded = recorded

    def take(self, run: EndedRun) -> EndedRun | None:
        """Hand a run to the framework; nothing of it is left here."""
        self._keep(run)
        return None


class RegionCopies:
    """The use of clients' shared memory in a front worker. The framework, which knows what is registered, is asked for
    each place; what lies there is read and written here.
    """

    def __init__(self, framework: Peer) -> None:
        self._framework: SharedMemory = framework.remote(SharedMemory)

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        return self._framework.place(name, offset, byte_size, owner).region.read(offset, byte_size)

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        view = memoryview(contents).cast("B")
        self._framework.place(name, offset, len(view), owner).region.write(offset, view)

    def is_prompt(self, owner: str) -> bool:
        return False


class FrontWorkerProcess:
    """Serves the protocol's ports for the framework at the other end of a channel. Use as a context."""

    def __init__(self, channel: Descriptor, end_process: Callable[[], None]) -> None:
        """Takes ``channel`` over. ``end_process`` is called when a server of it, or the channel, has ended by
        itself.

        Raises ServingError if the framework is gone, OSError if a port cannot be used."""
        self._health: ModelHealth | None = None
        self._stops = False
        self._must_report = threading.Event()
        self._is_short = False
        with ExitStack() as undo:
            duties = Workers(_MOST_DUTIES, "front-duty")
            undo.callback(duties.shutdown)
            self._peer = peer = Peer(channel_from(channel), duties, lambda: None if self._stops else end_process())
            undo.callback(peer.close)
            peer.start()
            self._framework: ServedWorker = peer.remote(ServedWorker)
            start = self._framework.start()
            settings = start.settings
            configure_logs("front", settings.log_level, settings.log_json)
            self._log_settings = RuntimeLogSettings(settings.log_level)
            self._log_settings.adopt(start.log)
            tracer: Tracer = peer.remote(Tracer)
            self._sampler = TraceSampler(start.trace, tracer.reserve, without_answer(tracer.take))
            monitor: ServingMonitor = peer.remote(ServingMonitor)
            self._recorder = RemoteRecorder(without_answer(monitor.keep), start.recorded)
            self._run_log = EndedRuns(
                self._recorder, without_answer(monitor.fell_back), without_answer(monitor.overloaded)
            )
            self._run_log.trace_id = current_trace_id
            self._metrics = RequestMetrics(metrics_options(settings.metrics_config))
            self._observers: list[Observer] = [self._metrics, RequestLog(self._log_settings)]
            self._loop = undo.enter_context(ServingLoop(settings.inference_threads))
            self._loop.on_server_end = end_process
            drain_seconds = repository_options(settings).drain_seconds
            refused = RefusedCalls()
            self._repository = RemoteRepository(self._framework, self._serve, self._metrics, refused, drain_seconds)
            self._repository.drain(start.drains)
            numbers = NumberTable(start.numbers, settings.front_workers + 1)
            budget = RequestMemoryBudget(settings.request_memory, numbers.number(REQUEST_BYTES, start.column))
            self._instance_memory = instance_memory_of(budget)
            budget.notify_others = self._note_shortage
            budget.large_ended = FreedMemory(self._loop).note_end
            backends = ServerBackends(
                start.server,
                peer.remote(ModelRepository, self._repository),
                peer.remote(TraceSettings),
                peer.remote(LogSettings),
                peer.remote(SharedMemory, RegionCopies(peer)) if settings.allow_client_shm else None,
                guard_of(settings, peer.remote(ClientRates) if settings.rate_limit else None, refused),
                budget,
                self._loop,
                tls_of(settings),
            )
            sockets = {name: undo.enter_context(_opened(found)) for name, found in start.sockets.items()}
            self._servers = self._servers_at(sockets, start, backends, numbers.number(HTTP_CONNECTIONS, start.column))
            peer.serve({FrontWorkerProcess: self})
            self._undo = undo.pop_all()

    def __enter__(self) -> FrontWorkerProcess:
        with ExitStack() as undo:
            undo.push(self._undo)
            undo.callback(self._repository.close)
            for server in self._servers:
                undo.enter_context(server)
            undo.callback(self._stop_reporting)
            LastingThread(self._keep_reporting, "front-report").start()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def changed(self, name: str, serials: Collection[int]) -> None:
        """A model was loaded or unloaded. When this returns, requests get none but the versions with these serials."""
        self._repository.changed(name, serials)
        self._refresh()

    def drain(self, drain: bool) -> None:
        """Take no new requests, or take them again."""
        self._repository.drain(drain)
        self._refresh()

    def report(self) -> None:
        """Report what was counted so far; returns when the framework has it."""
        self._repository.report()

    def record(self, models: Collection[str]) -> None:
        """The models whose runs are recorded have changed."""
        self._recorder.recorded = models

    def runs(self) -> ProcessRuns:
        """The requests that wait and run, and those that have ended since the last question."""
        live = [request for requests in self._repository.live() for request in requests.list()]
        return ProcessRuns(live, self._run_log.take(), self._run_log.take_chosen())

    def cancel_request(self, number: int) -> bool | None:
        """Cancel a request, as ``LiveRequests.cancel`` does."""
        found = (requests.cancel(number) for requests in self._repository.live())
        return next((was_waiting for was_waiting in found if was_waiting is not None), None)

    def reclaim(self) -> None:
        """Give back the memory that is kept for later requests."""
        self._instance_memory.reclaim_all()

    def trace_changed(self, rules: TraceRules) -> None:
        self._sampler.adopt(rules)

    def log_changed(self, settings: Mapping[str, LogSetting]) -> None:
        self._log_settings.adopt(settings)

    def _refresh(self) -> None:
        """Have the health of gRPC say again which models are ready."""
        if self._health is not None:
            self._health.refresh()

    def _keep_reporting(self) -> None:
        """Report from time to time, so that little is lost if the process is killed."""
        while not (self._stops or self._peer.is_gone):
            self._must_report.wait(_REPORT_SECONDS)
            self._must_report.clear()
            if self._is_short:
                self._is_short = False
                self._framework.reclaim()
            if self._repository.has_news:
                self._repository.report()

    def _stop_reporting(self) -> None:
        self._stops = True
        self._must_report.set()

    def _note_shortage(self) -> None:
        """Have other processes give back memory. May be called in the loop, so that another thread asks, soon."""
        self._is_short = True

    def _servers_at(
        self,
        sockets: Mapping[str, socket.socket],
        start: WorkerStart,
        backends: ServerBackends,
        open_http: SharedNumber,
    ) -> list[AbstractContextManager[object]]:
        """The servers at these sockets, with what watches them. ``open_http`` counts connections of HTTP."""
        settings, servers = start.settings, list[AbstractContextManager[object]]()
        watch = self._loop.listener_watch()
        if GRPC in sockets:
            address = listener_of(settings, GRPC).address
            own = f"unix:{start.directory / f'front-{start.column}.sock'}"  # other workers serve the port too
            grpc = grpc_server(settings, backends, [address, own], start.directory, {address: sockets[GRPC]})
            watch.add(f"gRPC of front worker {start.column}", asks_grpc(own))
            self._health = grpc.health
            servers.append(grpc)
        if HTTP in sockets:
            servers.append(http_server(settings, backends, listener_of(settings, HTTP), open_http, sockets[HTTP]))
        return [*servers, watch]

    def _serve(self, opened: OpenedVersion) -> RequestServer:
        if opened.serving.sequences is not None:  # the framework counts and observes them
            return ForwardingModel(opened, self._loop)
        samplers: list[Sampler] = [self._sampler, self._run_log]
        return ForwardingModel(opened, self._loop, self._observers, samplers, self._instance_memory)


def _opened(descriptor: Descriptor) -> socket.socket:
    return socket.socket(fileno=descriptor.detach())
