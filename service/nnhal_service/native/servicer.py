"""FrameworkService, composed of its parts."""

from __future__ import annotations

from nnhal.memory import CopyBudget
from nnhal.v1 import framework_pb2_grpc
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits
from nnhal_service.native.bindings import MAX_RUN_CHANNELS, BindingServicer
from nnhal_service.native.devices import FleetServicer
from nnhal_service.native.launches import LaunchServicer
from nnhal_service.native.memory import MemoryServicer
from nnhal_service.native.models import ModelServicer, ServedModels
from nnhal_service.native.session import NativeSessions
from nnhal_service.runtime import Fleet
from nnhal_service.runtime.devices.notes import Note, no_note
from nnhal_service.serving import ClientModelRuns

_LOAD_BYTES = 8 << 30


class FrameworkServicer(
    FleetServicer,
    ModelServicer,
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
    ) -> None:
        """``cache_directory`` holds compilations; nothing is cached if it is empty. ``models`` are those of the
        repository. One session may have ``run_channels`` at a time. ``runs`` are those of models that clients
        load themselves, and ``note`` is told when these are planned again. Loading them may take ``load_bytes``, and
        ``import_limits`` are those of one file.
        """
        self._fleet = fleet
        self._sessions = sessions
        self._cache_directory = cache_directory
        self._import_limits = import_limits
        self._models = models
        self._run_channels = run_channels
        self._runs = runs
        self._note = note
        self._copies = CopyBudget(load_bytes, "NNHAL_SERVICE_LOAD_BYTES")
