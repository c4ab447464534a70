"""FrameworkAdminService, composed of its parts."""

from __future__ import annotations

from nnhal.v1 import framework_admin_pb2_grpc
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_service.native.session import NativeSessions
from nnhal_service.operating.direct_runs import DirectRunCounter
from nnhal_service.operating.events import FrameworkEvents
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.fleet import OperatedFleet
from nnhal_service.operating.fronts import OperatedFronts
from nnhal_service.operating.models import OperatedModels
from nnhal_service.operating.models_in_use import ModelsInUse
from nnhal_service.operating.overview import OperatedOverview
from nnhal_service.operating.plans import OperatedPlans
from nnhal_service.operating.run_history import RunHistory
from nnhal_service.operating.runs import OperatedRuns
from nnhal_service.operating.targets import PlanTargets
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
    """What an operator asks of the framework; framework_admin.proto describes the methods."""

    def __init__(
        self,
        guard: OperatorGuard,
        fleet: Fleet,
        sessions: NativeSessions,
        records: ServingMonitor,
        events: FrameworkEvents,
        targets: PlanTargets,
        history: RunHistory,
        executions: FrameworkExecutions,
        fronts: OperatedFronts | None = None,
    ) -> None:
        """``guard`` tells operators from clients. ``fronts`` are those of the protocol, None without a repository."""
        self._guard = guard
        self._fleet = fleet
        self._sessions = sessions
        self._records = records
        self._events = events
        self._note = events.note
        self._targets = targets
        self._history = history
        self._executions = executions
        self._fronts = fronts
        self._models_in_use = ModelsInUse(records, sessions)
        self._loaded = self._models_in_use.by_name
        self._direct_runs = DirectRunCounter(self._models_in_use.all)
