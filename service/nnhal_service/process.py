"""The framework process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from nnhal.calibration import read_calibration
from nnhal.endpoint import Endpoint
from nnhal.v1 import framework_pb2, framework_pb2_grpc
from nnhal_hosting.admin.oversight import NO_OVERSIGHT, Oversight
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.access import ClientRates
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import Intake, NativeSession, NativeSessions
from nnhal_service.operating.events import FrameworkEvents
from nnhal_service.operating.run_archive import FILE_NAME, RunArchive
from nnhal_service.operating.servicer import OPERATOR_SERVICES, serve_framework_operators
from nnhal_service.protocol_settings import NO_SOCKETS, rates_of
from nnhal_service.run_memory import limit_run_memory
from nnhal_service.runtime import Fleet
from nnhal_service.runtime.devices.fatal_models import FatalModels
from nnhal_service.serving.models.monitor import ServingMonitor
from nnhal_service.settings import ServiceSettings

if TYPE_CHECKING:
    from nnhal_service.model_server import ModelServer
    from nnhal_service.observability import LatestEvents


class FrameworkProcess:
    """The native service and, with a model repository, the V2 servers. Use it as a context.

    ``addresses`` are those of the V2 servers, by protocol.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        devices: Mapping[str, Endpoint],
        settings: ServiceSettings,
        oversight: Oversight = NO_OVERSIGHT,
        passed: Mapping[str, socket.socket] = NO_SOCKETS,
    ) -> None:
        """Operators are those whom ``oversight`` knows. A service manager has ``passed`` sockets (see ``ModelServer``).

        Raises OSError or ValueError if the endpoint or the settings cannot be used.
        """
        intake = Intake()
        rates = rates_of(settings)
        sessions = _sessions(settings, rates, intake)
        limits = SessionLimits(
            descriptors=settings.max_descriptors,
            sessions=settings.max_sessions,
            place="the framework",
            prefix="NNHAL_SERVICE_",
        )
        events = FrameworkEvents()
        monitor = ServingMonitor(events.note)
        if passed and not settings.model_repository:
            raise ValueError(f"sockets are passed for {', '.join(passed)}, which needs --model-repository")
        limit_run_memory(settings.value_bytes)
        measured = read_calibration(settings.calibration) if settings.calibration is not None else {}
        fleet = self._fleet = Fleet(
            devices,
            note=events.note,
            hang_seconds=settings.hang_secs,
            stall_seconds=settings.stall_secs,
            calibration=measured,
            fatal_models=FatalModels(settings.cache_directory, events.note),
        )
        endpoint.create()
        self._model_server: ModelServer | None = None
        if settings.model_repository:
            self._model_server = _made_model_server(
                endpoint, fleet, settings, sessions, monitor, events.latest, passed, rates, oversight.give_up
            )
        self._native = ServerProcess(
            endpoint,
            sessions.opened,
            limits,
            settings.calls,
            settings.allowed_uids,
            admin_keys=oversight.keys,
            end_process=oversight.give_up,
        )
        models = self._model_server.repository if self._model_server else None
        servicer = FrameworkServicer(
            fleet,
            sessions,
            settings.cache_directory,
            models,
            runs=monitor.client_models,
            note=events.note,
            load_bytes=settings.load_bytes,
            import_limits=settings.import_limits,
            plan_secs=settings.plan_secs,
        )
        self._native.serve_calls(framework_pb2_grpc.add_FrameworkServiceServicer_to_server, servicer)
        set_level = self._model_server.log_settings.set_level if self._model_server else None
        archive = RunArchive(endpoint.directory / FILE_NAME)
        self._history = serve_framework_operators(
            self._native, oversight, fleet, sessions, intake, monitor, events, self._model_server, set_level, archive
        )
        names = [service.full_name for service in framework_pb2.DESCRIPTOR.services_by_name.values()]
        self._native.reflect([*names, *OPERATOR_SERVICES])
        self.addresses = self._model_server.addresses if self._model_server else {}
        self._undo = ExitStack()

    def __enter__(self) -> FrameworkProcess:
        with ExitStack() as undo:
            undo.callback(self._fleet.close)
            undo.enter_context(self._history)
            undo.enter_context(self._native)
            if self._model_server is not None:
                undo.enter_context(self._model_server)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()


def _sessions(settings: ServiceSettings, rates: ClientRates | None, intake: Intake) -> NativeSessions:
    return NativeSessions(
        partial(
            NativeSession,
            rates=rates,
            has_tokens=settings.tokens is not None,
            max_models=settings.max_models,
            intake=intake,
        )
    )


def _made_model_server(
    endpoint: Endpoint,
    fleet: Fleet,
    settings: ServiceSettings,
    sessions: NativeSessions,
    monitor: ServingMonitor,
    events: LatestEvents,
    passed: Mapping[str, socket.socket],
    rates: ClientRates | None,
    end_process: Callable[[], None],
) -> ModelServer:
    """Import it, which takes a third of a start, and make it: a framework without a repository needs none."""
    from nnhal_service.model_server import ModelServer
    from nnhal_service.observability import NativeClients
    from nnhal_service.observability.request_scope import current_trace_id

    monitor.log.trace_id = current_trace_id
    clients = NativeClients(
        lambda: len(sessions.all()),
        lambda: [model for session in sessions.all() for model in session.own_models],
        monitor.client_models.usage,
    )
    return ModelServer(endpoint.directory, fleet, settings, clients, monitor, passed, rates, end_process, events)
