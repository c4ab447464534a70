"""The model server: the servers of the protocol, and the repository, shared memory, access and metrics behind them.

The modules of HTTP are imported only if it is enabled: they take as long to import as the rest of the framework.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from nnhal.descriptor import Descriptor
from nnhal_hosting.access import TcpListener, Tls
from nnhal_hosting.listener_watch import ListenerWatch, asks_grpc, asks_http
from nnhal_hosting.logs import get_logger
from nnhal_service.access import ClientRates, NumberTable, RequestMemoryBudget
from nnhal_service.allocator import FreedMemory
from nnhal_service.front_workers.pool import FrontWorkers
from nnhal_service.front_workers.process import FrontWorkerProcess
from nnhal_service.front_workers.served_worker import NUMBER_ROWS, REQUEST_BYTES, WorkerStart
from nnhal_service.observability import (
    NO_NATIVE_CLIENTS,
    LatestEvents,
    Metrics,
    NativeClients,
    RequestLog,
    RuntimeLogSettings,
    Tracer,
    metrics_app,
    metrics_options,
    open_exporter,
)
from nnhal_service.observability.traces.tracer import TraceRules
from nnhal_service.operating.earlier_plans import EarlierPlans
from nnhal_service.protocol_servers import ServerBackends, grpc_server, http_server, instance_memory_of
from nnhal_service.protocol_settings import (
    GRPC,
    HTTP,
    METRICS,
    NO_SOCKETS,
    check_passed,
    connection_limits,
    guard_of,
    hosts_of,
    listener_of,
    repository_options,
    tls_of,
    trace_start,
    users_of,
)
from nnhal_service.repository import Opener, Repository
from nnhal_service.repository.load_events import ModelNotes
from nnhal_service.repository.options import ControlMode
from nnhal_service.runtime import Fleet, LoadedModel, Substitutes
from nnhal_service.runtime.devices.notes import note_replanned
from nnhal_service.serving import Observer, ServedModel, ServingLoop
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.history.ended_runs import OtherProcesses
from nnhal_service.serving.models.monitor import ServingMonitor
from nnhal_service.settings import ServiceSettings
from nnhal_service.v2.backend import (
    LogSetting,
    LogSettings,
    ModelRepository,
    ServerDescription,
    SharedMemory,
    TraceSettings,
)
from nnhal_service.v2.grpc import SERVES_INHERITED, GrpcServer
from nnhal_service.v2.repository import ServedRepository
from nnhal_service.v2.shared_memory import SystemSharedMemory

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from nnhal_service.v2.http import HttpServer

_EXTENSIONS = (
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "sequence",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
    "nnhal_placement",
    "nnhal_fd_pools",
)
_SHARED_MEMORY = "system_shared_memory"
_SOCKET = "inference.sock"
_BACKLOG = 2048
"""Connections that wait while no front worker accepts any."""
_log = get_logger(__name__)


class ModelServer:
    """Serves a repository's models. Use it as a context: entering loads the models and serves, leaving ends both.

    ``repository``, ``served``, which has it in the words of the protocol, and the ``opener`` of its models are for
    others in the process; ``addresses`` has the address of each protocol; ``log_settings`` are those that clients see
    and operators change.
    """

    def __init__(
        self,
        directory: Path,
        fleet: Fleet,
        settings: ServiceSettings,
        clients: NativeClients = NO_NATIVE_CLIENTS,
        monitor: ServingMonitor | None = None,
        passed: Mapping[str, socket.socket] = NO_SOCKETS,
        rates: ClientRates | None = None,
        end_process: Callable[[], None] = lambda: None,
        events: LatestEvents = dict,
    ) -> None:
        """``directory`` is that of the endpoint, where gRPC is served at a socket too. ``clients`` are those of the
        native service, for metrics. ``monitor`` keeps what operators may ask about runs. ``passed`` are listening
        sockets from a service manager for the servers ``http`` and ``metrics``, in place of their hosts and ports.
        ``rates`` are how often clients may call, native ones among them; None for any rate. ``end_process`` is
        called when a server has ended by itself; the process is then to be started again. ``events`` are for metrics.

        Raises ValueError or ServingError if settings contradict one another or are not safe, OSError if an address or a
        file cannot be used.
        """
        self._monitor = monitor or ServingMonitor()
        self._settings = settings
        check_passed(settings, passed)
        self._passed = passed
        self._directory = directory
        self._tls: Tls | None = tls_of(settings)
        self._rates = rates
        self._guard = guard_of(settings, self._rates, self._monitor.refused)
        # Front workers have the first columns, and this process the last.
        self._numbers = NumberTable.create(len(NUMBER_ROWS), settings.front_workers + 1)
        held = self._numbers.number(REQUEST_BYTES, settings.front_workers)
        self._budget = RequestMemoryBudget(settings.request_memory, held if settings.front_workers > 1 else None)
        self._instance_memory = instance_memory_of(self._budget)
        self._loop = ServingLoop(settings.inference_threads)
        self._loop.on_server_end = self._fail
        self._budget.large_ended = FreedMemory(self._loop).note_end
        self._end_process = end_process
        self._servers: list[AbstractContextManager[object]] = []
        # Those of passed sockets serve only while models do; before and after that, clients wait.
        self._last_servers: list[AbstractContextManager[object]] = []
        self._grpc: GrpcServer | None = None
        self._workers: FrontWorkers | None = None
        self._shared: dict[str, socket.socket] = {}
        """What listens for the front workers, by protocol."""
        self.addresses: dict[str, str] = {}
        self._drains = False
        self._substitutes = Substitutes(settings.substitute_bytes)
        self.opener = Opener(fleet, self._serve, settings.cache_directory, settings.import_limits, self._substitutes)
        options = repository_options(settings)
        self.repository: Repository[ServedModel] = Repository(options, self.opener.open, self._changed)
        self._model_notes = ModelNotes(self.repository, self._monitor.note)
        self.earlier_plans = EarlierPlans(self.repository)
        with ExitStack() as undo:
            undo.enter_context(self._loop)
            self._observe(fleet, clients, events, undo)
            self._build(undo)
            self._undo = undo.pop_all()

    def __enter__(self) -> ModelServer:
        with ExitStack() as undo:
            undo.push(self._undo)
            for server in self._servers:
                undo.enter_context(server)
            undo.callback(self.repository.close)
            undo.callback(self._substitutes.close)
            self.repository.start()
            for server in self._last_servers:
                undo.enter_context(server)
            if self._workers is not None:
                self._workers.wait_until_ready()
            self._changed()
            undo.enter_context(self._listener_watch())
            self._undo = undo.pop_all()
        _log.info("serving models", **self.addresses)
        return self

    @property
    def processes(self) -> OtherProcesses | None:
        """The processes that serve the ports for this one; None if there are none."""
        return self._workers

    @property
    def may_load(self) -> bool:
        return self._settings.model_control_mode == ControlMode.EXPLICIT

    @property
    def folders(self) -> list[str]:
        return [str(path.resolve()) for path in self._settings.model_repository]

    @property
    def ready(self) -> bool:
        """Return whether the server is ready, as the protocol says it."""
        return self.served.ready()

    def drain(self, drain: bool) -> None:
        """Refuse new requests, while those in flight end, and be not ready; or take requests again."""
        self._drains = drain
        self.served.drain(drain)
        for model in self._monitor.models.all():
            model.drain(drain)
        if self._workers is not None:
            self._workers.tell(FrontWorkerProcess.drain, drain)
        self._changed()

    def collect(self) -> None:
        """Have other processes add what they have counted."""
        if self._workers is not None:
            self._workers.tell(FrontWorkerProcess.report)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _observe(self, fleet: Fleet, clients: NativeClients, events: LatestEvents, undo: ExitStack) -> None:
        settings = self._settings
        options = metrics_options(settings.metrics_config)
        self._metrics = Metrics(self._models, fleet, options, clients, self.collect, events, self._monitor.refused)
        undo.callback(self._metrics.close)
        self._monitor.models.on_gone = self._metrics.requests.forget
        directory = Path(settings.trace_directory) if settings.trace_directory else None
        start = trace_start(settings.trace_config)
        self._tracer = Tracer(
            self.repository.is_ready, directory, start, open_exporter(os.environ), self._trace_changed
        )
        undo.callback(self._tracer.close)
        self.log_settings = RuntimeLogSettings(settings.log_level, changed=self._log_changed)
        self._observers: list[Observer] = [self._metrics.requests, RequestLog(self.log_settings)]

    def _build(self, undo: ExitStack) -> None:
        settings, directory = self._settings, self._directory
        connections: dict[str, object] = {}
        memory = (
            SystemSharedMemory(self._client_ports, settings.client_shm_regions, connections=connections)
            if settings.allow_client_shm
            else None
        )
        if memory is not None:
            undo.callback(memory.close)
        server = ServerDescription(
            "nnhal", version("nnhal"), (*_EXTENSIONS, _SHARED_MEMORY) if memory is not None else _EXTENSIONS
        )
        models = self.served = ServedRepository(self.repository, self.collect)
        backends = ServerBackends(
            server,
            models,
            self._tracer,
            self.log_settings,
            memory,
            self._guard,
            self._budget,
            self._loop,
            self._tls,
            connections,
        )
        grpc = listener_of(settings, GRPC) if settings.allow_grpc else None
        inherited = self._passed.get(HTTP)
        http = listener_of(settings, HTTP, inherited) if settings.allow_http else None
        unix = f"unix:{directory / _SOCKET}"
        self._require_ports(grpc, None if inherited is not None else http)
        first_or_last = self._servers if inherited is None else self._last_servers
        if settings.front_workers > 1:
            self._workers = self._front_workers(backends, grpc if SERVES_INHERITED else None, http, undo)
            # The sockets are closed first: when no worker accepts any more, clients are refused.
            first_or_last.extend((self._workers, *self._shared.values()))
        if grpc is not None:
            addresses = [unix] if GRPC in self._shared else [grpc.address, unix]
            self._grpc = grpc_server(settings, backends, addresses, directory)
            self.addresses.setdefault(GRPC, self._grpc.addresses[0])
            self._servers.append(self._grpc)
        if http is not None and self._workers is None:
            over_http = http_server(settings, backends, http, inherited=inherited)
            first_or_last.append(over_http)
            self.addresses[HTTP] = over_http.listener.address
        if settings.allow_metrics:
            self._servers.append(self._metrics_server())

    def _client_ports(self) -> set[int]:
        return {int(self.addresses[name].rpartition(":")[2]) for name in ("grpc", "http") if name in self.addresses}

    def _front_workers(
        self, backends: ServerBackends, grpc: TcpListener | None, http: TcpListener | None, undo: ExitStack
    ) -> FrontWorkers:
        """The processes that serve the ports in place of this one."""
        chosen = {}
        for name, listener in {GRPC: grpc, HTTP: http}.items():
            if listener is not None:  # while no worker accepts connections, they wait
                listening = self._shared[name] = undo.enter_context(self._passed.get(name) or listener.listen(_BACKLOG))
                bound = TcpListener(listener.host, listening.getsockname()[1])
                self.addresses[name], chosen[f"{name}_port"] = bound.address, bound.port
        settings = self._settings.model_copy(update=chosen)

        def start(column: int) -> WorkerStart:
            return WorkerStart(
                settings,
                backends.server,
                self._directory,
                self.log_settings.update({}),
                self._tracer.rules,
                self._numbers.memory,
                self._monitor.recordings.recorded,
                self._drains,
                column,
                {name: Descriptor(os.dup(listening.fileno())) for name, listening in self._shared.items()},
            )

        asked: dict[type, object] = {
            ModelRepository: backends.repository,
            TraceSettings: backends.trace,
            LogSettings: backends.log,
            ClientRates: self._rates,
            SharedMemory: backends.memory,
            Tracer: self._tracer,
            ServingMonitor: self._monitor,
        }
        workers = FrontWorkers(
            settings.front_workers,
            start,
            self._numbers,
            self.repository,
            self._metrics.requests,
            asked,
            self._instance_memory,
            self._monitor.refused,
        )
        self._budget.notify_others = workers.reclaim
        recordings = self._monitor.recordings
        recordings.changed = lambda: workers.tell(FrontWorkerProcess.record, recordings.recorded)
        return workers

    def _require_ports(self, *listeners: TcpListener | None) -> None:
        """Raise OSError if a port is in use: what had begun to serve the others would have to be ended again."""
        settings = self._settings
        for listener in listeners:
            if listener is not None:
                listener.require_free()
        if settings.allow_metrics and METRICS not in self._passed:
            listener_of(settings, METRICS).require_free()

    def _metrics_server(self) -> HttpServer:
        from nnhal_service.v2.http import GuardMiddleware, HttpServer

        settings = self._settings
        inherited = self._passed.get(METRICS)
        listener = listener_of(settings, METRICS, inherited)

        def app(bound: TcpListener) -> ASGIApp:
            guard = self._guard.of_users(users_of(settings, bound))
            return GuardMiddleware(metrics_app(self._metrics), guard, hosts_of(settings, listener))

        server = HttpServer(listener, app, self._loop, self._tls, connection_limits(settings), inherited=inherited)
        self.addresses["metrics"] = server.listener.address
        return server

    def _listener_watch(self) -> ListenerWatch:
        """Each server of this process is asked whether it answers. That of gRPC has a socket without TLS too."""
        watch = self._loop.listener_watch()
        if self._grpc is not None:
            watch.add("gRPC", asks_grpc(self._grpc.addresses[-1]))
        for name in ("http", "metrics"):
            if name in self.addresses and not (name == "http" and self._workers is not None):
                watch.add(name, asks_http(self.addresses[name], self._tls is not None))
        return watch

    def _models(self) -> Iterator[ServedModel]:
        """The models that are ready; a model that is unloaded meanwhile is left out."""
        for row in self.repository.index(ready=True):
            with suppress(ServingError), self.repository.model(row.name, row.version) as lease:
                yield lease.model

    def _changed(self, model: str = "") -> None:
        if self._grpc is not None:
            self._grpc.health.refresh()
        if self._workers is not None:
            self._workers.changed(model)
        if model:
            self._model_notes.look(model)
            self.earlier_plans.look(model)

    def _fail(self) -> None:
        self.served.fail()
        self._end_process()

    def _trace_changed(self, rules: TraceRules) -> None:
        if self._workers is not None:
            self._workers.tell(FrontWorkerProcess.trace_changed, rules)

    def _log_changed(self, settings: Mapping[str, LogSetting]) -> None:
        if self._workers is not None:
            self._workers.tell(FrontWorkerProcess.log_changed, settings)

    def _serve(self, name: str, number: str, loaded: LoadedModel, config: ServingConfig) -> ServedModel:
        monitor = self._monitor
        served = ServedModel(
            name,
            number,
            loaded,
            config,
            self._loop,
            self._observers,
            [self._tracer.sampler, monitor.log] if self._tracer.may_trace else [monitor.log],
            register=monitor.models,
            run_log=monitor.log,
            memory=self._instance_memory,
        )
        loaded.on_replanned(partial(note_replanned, monitor.note, name))
        return served
