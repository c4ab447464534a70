"""The framework process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from nnhal.endpoint import Endpoint
from nnhal.v1 import framework_pb2, framework_pb2_grpc
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.server import ServerProcess
from nnhal_service.front_settings import rates_of
from nnhal_service.native.servicer import FrameworkServicer
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import Fleet
from nnhal_service.serving import ClientModelRuns
from nnhal_service.settings import ServiceSettings

if TYPE_CHECKING:
    from nnhal_service.front_door import FrontDoor


class FrameworkProcess:
    """The native service and, with a model repository, the protocol's fronts. Use it as a context.

    ``addresses`` are those of the fronts, by protocol.
    """

    def __init__(self, endpoint: Endpoint, devices: Mapping[str, Endpoint], settings: ServiceSettings) -> None:
        """Raises OSError or ValueError if the endpoint or the settings cannot be used."""
        sessions = NativeSessions(partial(NativeSession, rates=rates_of(settings), max_models=settings.max_models))
        limits = SessionLimits(descriptors_per_session=settings.max_descriptors, sessions=settings.max_sessions)
        fleet = self._fleet = Fleet(devices)
        runs = ClientModelRuns()
        endpoint.create()
        self._front_door: FrontDoor | None = None
        if settings.model_repository:
            # Importing the fronts takes a third of a start, and a framework without a repository needs none.
            from nnhal_service.front_door import FrontDoor
            from nnhal_service.observability import NativeClients

            clients = NativeClients(
                lambda: len(sessions.all()),
                lambda: [model for session in sessions.all() for model in session.own_models],
                runs.usage,
            )
            self._front_door = FrontDoor(endpoint.directory, fleet, settings, clients)
        self._native = ServerProcess(endpoint, sessions.opened, limits, settings.rpc_threads, settings.allowed_uids)
        models = self._front_door.repository if self._front_door else None
        watcher = runs if self._front_door else None  # without metrics no runs are counted
        servicer = FrameworkServicer(fleet, sessions, settings.cache_directory, models, watcher=watcher)
        framework_pb2_grpc.add_FrameworkServiceServicer_to_server(servicer, self._native.rpc)
        self._native.reflect([service.full_name for service in framework_pb2.DESCRIPTOR.services_by_name.values()])
        self.addresses = self._front_door.addresses if self._front_door else {}
        self._undo = ExitStack()

    def __enter__(self) -> FrameworkProcess:
        with ExitStack() as undo:
            undo.callback(self._fleet.close)
            undo.enter_context(self._native)
            if self._front_door is not None:
                undo.enter_context(self._front_door)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
