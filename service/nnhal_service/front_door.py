"""The protocol's fronts and what is behind them: the repository, shared memory, access."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

import structlog

from nnhal_service.access import Guard, Listener, Rate, RateLimits, Tls, read_tokens, require_safe
from nnhal_service.repository import Opener, Repository, RepositoryOptions
from nnhal_service.runtime import Fleet, LoadedModel
from nnhal_service.serving import ServedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.settings import ServiceSettings
from nnhal_service.v2.backend import ServerDescription
from nnhal_service.v2.grpc import GrpcFront, InferenceServicer, Limits
from nnhal_service.v2.grpc.access import GuardInterceptor
from nnhal_service.v2.grpc.health import ModelHealth
from nnhal_service.v2.http import HttpServer, create_app
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.repository import ServedRepository
from nnhal_service.v2.settings import StoredLogSettings, StoredTraceSettings
from nnhal_service.v2.shared_memory import SystemSharedMemory

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
_log = structlog.get_logger(__name__)


class FrontDoor:
    """Serves a repository's models. Use as a context: entering loads what is to be loaded and serves, leaving ends it.

    ``repository`` is for other fronts of the process.
    """

    def __init__(self, directory: Path, fleet: Fleet, settings: ServiceSettings) -> None:
        """``directory`` is the endpoint's; gRPC is served at a socket there too.

        Raises ValueError for settings that do not go together or are not safe, OSError for an address or file that
        cannot be used.
        """
        self._settings = settings
        tls = _tls(settings)
        tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
        self.repository: Repository[ServedModel] = Repository(
            _repository_options(settings), Opener(fleet, self._serve, settings.cache_directory).open, self._changed
        )
        self._health: ModelHealth | None = None
        self._guard = Guard(tokens, RateLimits(_rate(settings)))
        self._undo = ExitStack()
        try:
            self._fronts = self._build(directory, tls)
        except BaseException:
            self._undo.close()
            raise

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where each protocol is served, with the ports that were chosen."""
        return self._addresses

    def __enter__(self) -> FrontDoor:
        with ExitStack() as undo:
            undo.push(self._undo)
            for front in self._fronts:
                undo.enter_context(front)
            undo.callback(self.repository.close)
            self.repository.start()
            self._undo = undo.pop_all()
        _log.info("serving models", **self._addresses)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _build(self, directory: Path, tls: Tls | None) -> list[GrpcFront | HttpServer]:
        settings = self._settings
        memory = SystemSharedMemory(settings.client_shm_regions) if settings.allow_client_shm else None
        extensions = (*_EXTENSIONS, _SHARED_MEMORY) if memory else _EXTENSIONS
        if memory:
            self._undo.callback(memory.close)
        server = ServerDescription("nnhal", version("nnhal"), extensions)
        models = ServedRepository(self.repository)
        trace = StoredTraceSettings(self.repository.is_ready, lambda *_: None)
        log = StoredLogSettings(lambda *_: None)
        fronts: list[GrpcFront | HttpServer] = []
        self._addresses: dict[str, str] = {}
        if settings.allow_grpc:
            listener = self._listener(settings.grpc_host, settings.grpc_port)
            grpc = GrpcFront(
                [listener.address, f"unix:{directory / _SOCKET}"],
                InferenceServicer(server, models, trace, log, memory, native_directory=str(directory.resolve())),
                models,
                Limits(settings.inference_threads, message_bytes=settings.grpc_max_message_size),
                tls.grpc_credentials() if tls else None,
                [GuardInterceptor(self._guard)],
            )
            self._health = grpc.health
            self._addresses["grpc"] = grpc.addresses[0]
            fronts.append(grpc)
        if settings.allow_http:
            workers = self._undo.enter_context(ThreadPoolExecutor(settings.inference_threads, "v2-http"))
            services = Services(server, models, trace, log, self._guard, workers, settings.http_max_input_size, memory)
            http = HttpServer(self._listener(settings.http_host, settings.http_port), create_app(services), tls)
            self._addresses["http"] = http.listener.address
            fronts.append(http)
        return fronts

    def _listener(self, host: str, port: int) -> Listener:
        settings, listener = self._settings, Listener(host, port)
        has_tls = settings.tls_certificate is not None
        require_safe(listener, has_tls, settings.tokens is not None, settings.insecure)
        return listener

    def _changed(self) -> None:
        if self._health is not None:
            self._health.refresh()

    def _serve(self, name: str, number: str, loaded: LoadedModel, config: ServingConfig) -> ServedModel:
        return ServedModel(name, number, loaded, config)


def _repository_options(settings: ServiceSettings) -> RepositoryOptions:
    return RepositoryOptions(
        tuple(path.resolve() for path in settings.model_repository),
        settings.model_control_mode,
        settings.load_model,
        settings.repository_poll_secs,
        settings.strict_readiness,
        settings.exit_on_error,
        settings.model_config_name,
    )


def _tls(settings: ServiceSettings) -> Tls | None:
    """Raises ValueError or OSError."""
    certificate, key, authority = settings.tls_certificate, settings.tls_key, settings.tls_client_authority
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-certificate and --tls-key go together, and --tls-client-authority needs both")
    tls = Tls(certificate, key, authority)
    tls.require_usable()
    return tls


def _rate(settings: ServiceSettings) -> Rate | None:
    limit = settings.rate_limit
    return Rate(limit, max(1, round(limit))) if limit else None
