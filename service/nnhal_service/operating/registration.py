"""Adding what operators ask of the framework to its servers."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.v1 import framework_admin_pb2, framework_admin_pb2_grpc
from nnhal_hosting.admin.oversight import Oversight
from nnhal_hosting.admin.servicer import ADMIN_SERVICE, serve_admin
from nnhal_hosting.server import ServerProcess
from nnhal_service.native.intake import Intake
from nnhal_service.native.session import NativeSessions
from nnhal_service.operating.administration import FrameworkAdministration
from nnhal_service.operating.events import FrameworkEvents
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.fronts import OperatedFronts
from nnhal_service.operating.run_history import RunHistory
from nnhal_service.operating.servicer import FrameworkAdminServicer
from nnhal_service.operating.targets import OperatedRepository, PlanTargets
from nnhal_service.runtime import Fleet
from nnhal_service.serving.models.monitor import ServingMonitor

FRAMEWORK_ADMIN_SERVICE = framework_admin_pb2.DESCRIPTOR.services_by_name["FrameworkAdminService"].full_name
OPERATOR_SERVICES = (ADMIN_SERVICE, FRAMEWORK_ADMIN_SERVICE)
"""The names by which reflection offers them."""


def serve_framework_operators(
    process: ServerProcess,
    oversight: Oversight,
    fleet: Fleet,
    sessions: NativeSessions,
    intake: Intake,
    records: ServingMonitor,
    events: FrameworkEvents,
    fronts: OperatedFronts | None,
    set_level: Callable[[str], object] | None,
) -> None:
    """Serve AdminService and FrameworkAdminService at the framework's own socket.

    The process must have been made with the keys of the same ``oversight``; the rest is as the parts have it.
    """
    history = RunHistory(records, lambda: None if fronts is None else fronts.processes)
    executions = FrameworkExecutions(sessions, history)
    administration = FrameworkAdministration(sessions, intake, executions, records, events.note, fronts, set_level)
    guard = serve_admin(process, administration, oversight)
    repository = None if fronts is None else OperatedRepository(fronts.repository, fronts.served, fronts.opener)
    targets = PlanTargets(sessions, repository)
    servicer = FrameworkAdminServicer(guard, fleet, sessions, records, events, targets, history, executions, fronts)
    process.serve_operators(framework_admin_pb2_grpc.add_FrameworkAdminServiceServicer_to_server, servicer)
