"""FrameworkAdminService, composed of its parts, and how it is added to the framework's servers."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.v1 import framework_admin_pb2, framework_admin_pb2_grpc
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.admin.oversight import Oversight
from nnhal_hosting.admin.servicer import ADMIN_SERVICE, serve_admin
from nnhal_hosting.server import ServerProcess
from nnhal_service.native.session import Intake, NativeSessions
from nnhal_service.operating.administration import FrameworkAdministration
from nnhal_service.operating.direct_runs import DirectRunCounter
from nnhal_service.operating.events import FrameworkEvents
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.fleet import OperatedFleet
from nnhal_service.operating.model_server import OperatedModelServer
from nnhal_service.operating.models import OperatedModels
from nnhal_service.operating.overview import OperatedOverview
from nnhal_service.operating.plans import OperatedPlans
from nnhal_service.operating.run_archive import RunArchive
from nnhal_service.operating.run_history import RunHistory
from nnhal_service.operating.runs import OperatedRuns
from nnhal_service.operating.targets import ModelsInUse, OperatedRepository, PlanTargets
from nnhal_service.runtime import Fleet
from nnhal_service.serving.models.monitor import ServingMonitor


class FrameworkAdminServicer(
    OperatedOverview,
    OperatedModels,
    OperatedPlans,
    OperatedRuns,
    OperatedFleet,
    framework_admin_pb2_grpc.FrameworkAdminServiceServicer,
):
    """Service of the framework for operators; framework_admin.proto describes the methods."""

    def __init__(
        self,
        guard: OperatorGuard,
        fleet: Fleet,
        sessions: NativeSessions,
        monitor: ServingMonitor,
        events: FrameworkEvents,
        targets: PlanTargets,
        history: RunHistory,
        executions: FrameworkExecutions,
        model_server: OperatedModelServer | None = None,
    ) -> None:
        """``guard`` tells operators from clients. ``model_server`` is None without a repository."""
        self._guard = guard
        self._fleet = fleet
        self._sessions = sessions
        self._monitor = monitor
        self._events = events
        self._note = events.note
        self._targets = targets
        self._history = history
        self._executions = executions
        self._model_server = model_server
        self._models_in_use = ModelsInUse(monitor, sessions)
        self._loaded = self._models_in_use.by_name
        self._direct_runs = DirectRunCounter(self._models_in_use.all)


FRAMEWORK_ADMIN_SERVICE = framework_admin_pb2.DESCRIPTOR.services_by_name["FrameworkAdminService"].full_name
OPERATOR_SERVICES = (ADMIN_SERVICE, FRAMEWORK_ADMIN_SERVICE)
"""The names by which reflection offers them."""


def serve_framework_operators(
    process: ServerProcess,
    oversight: Oversight,
    fleet: Fleet,
    sessions: NativeSessions,
    intake: Intake,
    monitor: ServingMonitor,
    events: FrameworkEvents,
    model_server: OperatedModelServer | None,
    set_level: Callable[[str], object] | None,
    archive: RunArchive,
) -> RunHistory:
    """Serve AdminService and FrameworkAdminService at the framework's own socket, and return the history of runs.

    The process must have been made with the keys of the same ``oversight``; the rest is as the parts have it.
    """
    history = RunHistory(monitor, lambda: None if model_server is None else model_server.processes, archive)
    executions = FrameworkExecutions(sessions, history)
    administration = FrameworkAdministration(
        sessions, intake, executions, monitor, events.note, model_server, set_level
    )
    guard = serve_admin(process, administration, oversight)
    repository = (
        None
        if model_server is None
        else OperatedRepository(
            model_server.repository, model_server.served, model_server.opener, model_server.earlier_plans
        )
    )
    targets = PlanTargets(sessions, repository)
    servicer = FrameworkAdminServicer(
        guard, fleet, sessions, monitor, events, targets, history, executions, model_server
    )
    process.serve_operators(framework_admin_pb2_grpc.add_FrameworkAdminServiceServicer_to_server, servicer)
    return history
