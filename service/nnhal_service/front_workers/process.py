"""The process of a front worker, and the small parts of the framework that it asks for what all workers share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType

from nnhal.descriptor import Descriptor
from nnhal.link.channel import channel_from
from nnhal.threads import LastingThread
from nnhal_hosting.listener_watch import asks_grpc
from nnhal_hosting.logs import configure_logs
from nnhal_service.access import ClientRates, NumberTable, RequestMemoryBudget
from nnhal_service.allocator import FreedMemory
from nnhal_service.front_workers.forwarding_model import ForwardingModel
from nnhal_service.front_workers.interfaces import (
    HTTP_CONNECTIONS,
    REQUEST_BYTES,
    FrameworkModels,
    FrameworkRuns,
    OpenedVersion,
    WorkerDuties,
)
from nnhal_service.front_workers.peer import Peer, ServedInterface
from nnhal_service.front_workers.remote_model import RemoteModel
from nnhal_service.front_workers.repository import RemoteRepository
from nnhal_service.front_workers.shared_memory import RemoteSharedMemory
from nnhal_service.front_workers.traces import RemoteTracer
from nnhal_service.observability import RequestLog, RuntimeLogSettings, metrics_options
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.observability.traces.tracer import TraceRules
from nnhal_service.protocol_servers import ServerBackends, grpc_server, http_server, instance_memory_of
from nnhal_service.protocol_settings import GRPC, HTTP, guard_of, listener_of, repository_options, tls_of
from nnhal_service.runtime.run.workers import Workers
from nnhal_service.serving import Observer, RequestServer, ServingError, ServingLoop
from nnhal_service.serving.history.ended_runs import EndedRun, EndedRuns, ProcessRuns
from nnhal_service.serving.requests.signature import ModelSignature
from nnhal_service.v2.backend import LogSetting, LogSettings, TraceSettings
from nnhal_service.v2.grpc.health import ModelHealth

_REPORT_SECONDS = 0.25
_MOST_DUTIES = 16
"""Calls of the framework that are answered at a time."""


class RemoteTraceSettings:
    """The TraceSettings of a front worker."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        # The V2 server may give values that are views of a message, which cannot be sent.
        plain = {key: tuple(values) for key, values in changes.items()}
        return self._framework.ask(TraceSettings.update, model_name, plain)


class RemoteLogSettings:
    """The LogSettings of a front worker. The framework tells all workers what has changed."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        return self._framework.ask(LogSettings.update, dict(changes))


class RemoteRecorder:
    """The Recorder of a front worker, and what is told of its fallbacks and its overload.

    Safe to use from several threads.
    """

    def __init__(self, framework: Peer, recorded: Collection[str]) -> None:
        self._framework = framework
        self.recorded = recorded

    def take(self, run: EndedRun) -> EndedRun | None:
        """Hand a run to the framework; nothing of it is left here."""
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(FrameworkRuns.keep, run)
        return None

    def fell_back(self, model: str, devices: Sequence[str]) -> None:
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(FrameworkRuns.fell_back, model, devices)

    def overloaded(self, model: str, why: str) -> None:
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(FrameworkRuns.overloaded, model, why)


class RemoteRates:
    """The ClientRates of a front worker. Each request asks the framework, so that a rate is one for all workers."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def admit(self, client: str) -> bool:
        return self._framework.ask(ClientRates.admit, client)


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
        self._servers: list[AbstractContextManager[object]] = []
        with ExitStack() as undo:
            duties = Workers(_MOST_DUTIES, "front-duty")
            undo.callback(duties.shutdown)
            served: dict[type, ServedInterface] = {WorkerDuties: ServedInterface(self, duties)}
            self._framework = Peer(channel_from(channel), served, lambda: None if self._stops else end_process())
            undo.callback(self._framework.close)
            self._framework.start()
            start = self._framework.ask(FrameworkModels.start)
            settings = start.settings
            configure_logs("front", settings.log_level, settings.log_json)
            self._log_settings = RuntimeLogSettings(settings.log_level)
            self._log_settings.adopt(start.log)
            self._tracer = RemoteTracer(self._framework, start.trace)
            self._recorder = RemoteRecorder(self._framework, start.recorded)
            self._run_log = EndedRuns(self._recorder, self._recorder.fell_back, self._recorder.overloaded)
            self._metrics = RequestMetrics(metrics_options(settings.metrics_config))
            self._observers: list[Observer] = [self._metrics, RequestLog(self._log_settings)]
            self._loop = undo.enter_context(ServingLoop(settings.inference_threads))
            self._loop.on_server_end = end_process
            drain_seconds = repository_options(settings).drain_seconds
            self._repository = RemoteRepository(self._framework, self._serve, self._metrics, drain_seconds)
            self._repository.drain(start.drains)
            numbers = NumberTable(start.numbers, start.workers + 1)
            budget = RequestMemoryBudget(settings.request_memory, numbers.number(REQUEST_BYTES, start.column))
            self._instance_memory = instance_memory_of(budget)
            budget.notify_others = self._note_shortage
            budget.large_ended = FreedMemory(self._loop).note_end
            backends = ServerBackends(
                start.server,
                self._repository,
                RemoteTraceSettings(self._framework),
                RemoteLogSettings(self._framework),
                RemoteSharedMemory(self._framework) if settings.allow_client_shm else None,
                guard_of(settings, RemoteRates(self._framework) if settings.rate_limit else None),
                budget,
                self._loop,
                tls_of(settings),
            )
            watch = self._loop.listener_watch()
            if settings.allow_grpc:
                address = listener_of(settings, GRPC).address
                own = f"unix:{start.directory / f'front-{start.column}.sock'}"  # other workers serve the port too
                grpc = grpc_server(settings, backends, [address, own], start.directory, shares_ports=True)
                watch.add(f"gRPC of front worker {start.column}", asks_grpc(own))
                self._health = grpc.health
                self._servers.append(grpc)
            if start.http is not None:
                inherited = undo.enter_context(socket.socket(fileno=start.http.detach()))
                listener = listener_of(settings, HTTP)
                connections = numbers.number(HTTP_CONNECTIONS, start.column)
                self._servers.append(http_server(settings, backends, listener, connections, inherited))
            self._servers.append(watch)
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
        self._repository.changed(name, serials)
        if self._health is not None:
            self._health.refresh()

    def report(self) -> None:
        self._repository.report()

    def log_changed(self, settings: Mapping[str, LogSetting]) -> None:
        self._log_settings.adopt(settings)

    def drain(self, drain: bool) -> None:
        self._repository.drain(drain)
        if self._health is not None:
            self._health.refresh()

    def record(self, models: Collection[str]) -> None:
        self._recorder.recorded = models

    def runs(self) -> ProcessRuns:
        live = [request for requests in self._repository.live() for request in requests.list()]
        return ProcessRuns(live, self._run_log.take())

    def cancel_request(self, number: int) -> bool | None:
        found = (requests.cancel(number) for requests in self._repository.live())
        return next((was_waiting for was_waiting in found if was_waiting is not None), None)

    def reclaim(self) -> None:
        self._instance_memory.reclaim_all()

    def trace_changed(self, rules: TraceRules) -> None:
        self._tracer.adopt(rules)

    def _keep_reporting(self) -> None:
        """Report from time to time, so that little is lost if the process is killed."""
        while not (self._stops or self._framework.is_gone):
            self._must_report.wait(_REPORT_SECONDS)
            self._must_report.clear()
            if self._is_short:
                self._is_short = False
                self._framework.ask(FrameworkModels.reclaim)
            if self._repository.has_news:
                self._repository.report()

    def _stop_reporting(self) -> None:
        self._stops = True
        self._must_report.set()

    def _note_shortage(self) -> None:
        """Have other processes give back memory. May be called in the loop, so that another thread asks, soon."""
        self._is_short = True

    def _serve(self, opened: OpenedVersion) -> RequestServer:
        sequences = opened.serving.sequences
        hidden = () if sequences is None else sequences.hidden
        signature = ModelSignature(
            opened.name,
            opened.inputs,
            opened.outputs,
            opened.serving.max_batch_size,
            hidden,
            opened.serving.unlisted_outputs,
            opened.optional,
        )
        model = RemoteModel(self._framework, opened)
        if sequences is not None:
            return ForwardingModel(self._framework, opened, signature, model, self._loop)
        return ForwardingModel(
            self._framework,
            opened,
            signature,
            model,
            self._loop,
            self._observers,
            [self._tracer, self._run_log],
            self._instance_memory,
        )
