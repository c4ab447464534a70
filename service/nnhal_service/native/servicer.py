"""FrameworkService, composed of its parts."""

from __future__ import annotations

from nnhal.memory import CopyBudget
from nnhal.v1 import framework_pb2_grpc
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits
from nnhal_service.native.bindings import MAX_RUN_CHANNELS, BindingServicer
from nnhal_service.native.devices import FleetServicer
from nnhal_service.native.kept_plans import KeptPlans
from nnhal_service.native.launches import LaunchServicer
from nnhal_service.native.memory import MemoryServicer
from nnhal_service.native.models import ServedModels
from nnhal_service.native.plans import PlanServicer
from nnhal_service.native.requested_models import RequestedModels
from nnhal_service.native.session import NativeSessions
from nnhal_service.runtime import Fleet
from nnhal_service.runtime.devices.notes import Note, no_note
from nnhal_service.serving import ClientModelRuns

_LOAD_BYTES = 8 << 30
_PLAN_SECONDS = 300.0


class FrameworkServicer(
    FleetServicer,
    PlanServicer,
    BindingServicer,
    LaunchServicer,
    MemoryServicer,
    framework_pb2_grpc.FrameworkServiceServicer,
):
    """The native service over gRPC; framework.proto describes its methods."""

    def __init__(
        self,
        fleet: Fleet,
        sessions: NativeSessions,
        cache_directory: str = "",
        models: ServedModels | None = None,
        run_channels: int = MAX_RUN_CHANNELS,
        runs: ClientModelRuns | None = None,
        note: Note = no_note,
        load_bytes: int = _LOAD_BYTES,
        import_limits: ImportLimits = DEFAULT_LIMITS,
        plan_secs: float = _PLAN_SECONDS,
    ) -> None:
        """``cache_directory`` holds compilations; nothing is cached if it is empty. ``models`` are those of the
        repository. One session may have ``run_channels`` at a time. ``runs`` are those of models that clients
        load themselves, and ``note`` is told when these are planned again. Loading them may take ``load_bytes``, and
        ``import_limits`` are those of one file. A plan that is not used for ``plan_secs`` is dropped.
        """
        self._fleet = fleet
        self._sessions = sessions
        self._models = models
        self._run_channels = run_channels
        self._runs = runs
        self._note = note
        copies = self._copies = CopyBudget(load_bytes, "NNHAL_SERVICE_LOAD_BYTES")
        self._requested = RequestedModels(fleet, cache_directory, import_limits, copies)
        self._plans = KeptPlans(plan_secs)
