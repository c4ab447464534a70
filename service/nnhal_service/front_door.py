"""The protocol's fronts and what they share: the repository, shared memory, access, metrics and traces.

The modules of HTTP are imported only if it is enabled: they take as long to import as the rest of the framework.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from nnhal_hosting.logs import get_logger
from nnhal_service.access import RequestMemoryBudget, Tls
from nnhal_service.front_settings import (
    connection_limits,
    guard_of,
    listener_of,
    repository_options,
    tls_of,
    trace_start,
)
from nnhal_service.observability import (
    NO_NATIVE_CLIENTS,
    Metrics,
    NativeClients,
    RequestLog,
    RuntimeLogSettings,
    Tracer,
    metrics_app,
    metrics_options,
    open_exporter,
)
from nnhal_service.repository import Opener, Repository
from nnhal_service.runtime import Fleet, LoadedModel
from nnhal_service.serving import Observer, ServedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ServingError
from nnhal_service.settings import ServiceSettings
from nnhal_service.v2.backend import ServerDescription
from nnhal_service.v2.grpc import GrpcFront, GrpcLimits, GuardInterceptor, InferenceServicer
from nnhal_service.v2.grpc.health import ModelHealth
from nnhal_service.v2.repository import ServedRepository
from nnhal_service.v2.shared_memory import SystemSharedMemory

if TYPE_CHECKING:
    from nnhal_service.v2.http import HttpServer

_EXTENSIONS = (
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
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
_log = get_logger(__name__)


class FrontDoor:
    """Serves a repository's models. Use it as a context: entering loads the models and serves, leaving ends both.

    ``repository`` is for other fronts of the process; ``addresses`` has the address of each protocol.
    """

    def __init__(
        self,
        directory: Path,
        fleet: Fleet,
        settings: ServiceSettings,
        clients: NativeClients = NO_NATIVE_CLIENTS,
    ) -> None:
        """``directory`` is that of the endpoint, where gRPC is served at a socket too. ``clients`` are those of the
        native service, for metrics.

        Raises ValueError or ServingError if settings contradict one another or are not safe, OSError if an address or a
        file cannot be used.
        """
        self._settings = settings
        self._directory = directory
        self._tls: Tls | None = tls_of(settings)
        self._guard = guard_of(settings)
        self._budget = RequestMemoryBudget(settings.request_memory)
        self._health: ModelHealth | None = None
        self.addresses: dict[str, str] = {}
        opener = Opener(fleet, self._serve, settings.cache_directory)
        self.repository: Repository[ServedModel] = Repository(repository_options(settings), opener.open, self._changed)
        with ExitStack() as undo:
            self._observe(fleet, clients, undo)
            self._fronts = self._build(undo)
            self._undo = undo.pop_all()

    def __enter__(self) -> FrontDoor:
        with ExitStack() as undo:
            undo.push(self._undo)
            for front in self._fronts:
                undo.enter_context(front)
            undo.callback(self.repository.close)
            self.repository.start()
            self._changed()
            self._undo = undo.pop_all()
        _log.info("serving models", **self.addresses)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _observe(self, fleet: Fleet, clients: NativeClients, undo: ExitStack) -> None:
        settings = self._settings
        self._metrics = Metrics(self._models, fleet, metrics_options(settings.metrics_config), clients)
        undo.callback(self._metrics.close)
        directory = Path(settings.trace_directory) if settings.trace_directory else None
        start = trace_start(settings.trace_config)
        self._tracer = Tracer(self.repository.is_ready, directory, start, open_exporter(os.environ))
        undo.callback(self._tracer.close)
        self._log_settings = RuntimeLogSettings(settings.log_level)
        self._observers: list[Observer] = [self._metrics, RequestLog(self._log_settings)]

    def _build(self, undo: ExitStack) -> list[GrpcFront | HttpServer]:
        settings = self._settings
        memory = SystemSharedMemory(settings.client_shm_regions) if settings.allow_client_shm else None
        if memory is not None:
            undo.callback(memory.close)
        server = ServerDescription(
            "nnhal", version("nnhal"), (*_EXTENSIONS, _SHARED_MEMORY) if memory is not None else _EXTENSIONS
        )
        fronts: list[GrpcFront | HttpServer] = []
        if settings.allow_grpc:
            fronts.append(self._grpc(server, memory))
        if settings.allow_http:
            fronts.append(self._http(server, memory, undo))
        if settings.allow_metrics:
            fronts.append(self._metrics_server())
        return fronts

    def _grpc(self, server: ServerDescription, memory: SystemSharedMemory | None) -> GrpcFront:
        settings, models, directory = self._settings, ServedRepository(self.repository), self._directory
        front = GrpcFront(
            [listener_of(settings, settings.grpc_host, settings.grpc_port).address, f"unix:{directory / _SOCKET}"],
            InferenceServicer(
                server,
                models,
                self._tracer,
                self._log_settings,
                memory,
                native_directory=str(directory.resolve()),
                budget=self._budget,
            ),
            models,
            GrpcLimits(settings.inference_threads, message_bytes=settings.grpc_max_message_size),
            self._tls.grpc_credentials() if self._tls else None,
            [GuardInterceptor(self._guard)] if self._guard.has_rules else [],
        )
        self._health = front.health
        self.addresses["grpc"] = front.addresses[0]
        return front

    def _http(self, server: ServerDescription, memory: SystemSharedMemory | None, undo: ExitStack) -> HttpServer:
        from nnhal_service.v2.http import HttpServer, create_app
        from nnhal_service.v2.http.services import Services

        settings = self._settings
        services = Services(
            server,
            ServedRepository(self.repository),
            self._tracer,
            self._log_settings,
            self._guard,
            undo.enter_context(ThreadPoolExecutor(settings.inference_threads, "v2-http")),
            settings.http_max_input_size,
            memory,
            self._budget,
        )
        listener = listener_of(settings, settings.http_host, settings.http_port)
        front = HttpServer(listener, create_app(services), self._tls, connection_limits(settings))
        self.addresses["http"] = front.listener.address
        return front

    def _metrics_server(self) -> HttpServer:
        from nnhal_service.v2.http import GuardMiddleware, HttpServer

        settings = self._settings
        app = GuardMiddleware(metrics_app(self._metrics), self._guard)
        listener = listener_of(settings, settings.metrics_host, settings.metrics_port)
        front = HttpServer(listener, app, self._tls, connection_limits(settings))
        self.addresses["metrics"] = front.listener.address
        return front

    def _models(self) -> Iterator[ServedModel]:
        """The models that are ready; a model that is unloaded meanwhile is left out."""
        for row in self.repository.index(ready=True):
            with suppress(ServingError), self.repository.model(row.name, row.version) as lease:
                yield lease.model

    def _changed(self, model: str = "") -> None:
        if self._health is not None:
            self._health.refresh(model)

    def _serve(self, name: str, number: str, loaded: LoadedModel, config: ServingConfig) -> ServedModel:
        return ServedModel(name, number, loaded, config, self._observers, self._tracer)
