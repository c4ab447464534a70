"""Service of the framework's process for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_hosting.logs import SHOWN, levels_from, show_logs
from nnhal_hosting.sessions import Ownership
from nnhal_service.native.kept_plans import KeptPlan
from nnhal_service.native.session import Intake, NativeSession, NativeSessions, SessionBinding
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.memories import buffers_of, bytes_of_buffer, pools_of
from nnhal_service.operating.model_server import OperatedModelServer
from nnhal_service.runtime.devices.notes import Note
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.runtime.run.launched_run import LaunchedRun
from nnhal_service.serving.models.monitor import ServingMonitor


class FrameworkAdministration:
    """The framework's process, as its AdminService sees it."""

    def __init__(
        self,
        sessions: NativeSessions,
        intake: Intake,
        executions: FrameworkExecutions,
        monitor: ServingMonitor,
        note: Note,
        model_server: OperatedModelServer | None = None,
        set_level: Callable[[str], object] | None = None,
    ) -> None:
        """``intake`` counts the requests of native clients. ``note`` is called for draining.

        ``set_level`` changes the log settings that clients of the protocol see; None without the protocol.
        """
        self._sessions = sessions
        self._intake = intake
        self._executions = executions
        self._monitor = monitor
        self._note = note
        self._model_server = model_server
        self._set_level = set_level

    @property
    def kind(self) -> str:
        return "framework"

    @property
    def name(self) -> str:
        return "framework"

    @property
    def sessions(self) -> NativeSessions:
        return self._sessions

    @property
    def draining(self) -> bool:
        """Return whether it takes no new work."""
        return self._intake.is_closed

    def objects_of(self, owner: Ownership) -> list[wire.ObjectCount]:
        """Count what a session owns, by kind, with the bytes that the framework holds for it."""
        assert isinstance(owner, NativeSession)
        counts, held = Counter[str](), Counter[str]()
        for model in owner.models.values():
            kind = "open model" if model.is_share else "loaded model"
            counts[kind] += 1
            held[kind] += 0 if model.is_share else model.arena_bytes
        counts["binding"] = len(owner.all(SessionBinding))
        counts["launched run"] = len(owner.all(LaunchedRun))
        for plan in owner.all(KeptPlan):
            counts["plan"] += 1
            held["plan"] += plan.bytes
        for memory in owner.all(AllocatedMemory):
            counts["memory"] += 1
            held["memory"] += bytes_of_buffer(memory)
        return [
            wire.ObjectCount(kind=kind, count=count, bytes=held[kind])
            for kind, count in sorted(counts.items())
            if count
        ]

    def fill(self, response: wire.GetProcessResponse, session: str | None, brief: bool) -> None:
        """Add executions and, unless it is ``brief``, pools, buffers and fences."""
        response.executions.extend(self._executions.live(session))
        if brief:
            return
        owners = [owner for owner in self._sessions.all() if session in (None, owner.session.id)]
        models = self._monitor.models.all() if session is None else []
        response.pools.extend(with_pauses(pools_of(owners, models), 8))
        response.buffers.extend(buffers_of(owners))
        response.fences.extend(
            wire.FenceState(
                session=owner.session.id,
                owed_by=f"launched run {handle}",
                since_ns=launched.launched_ns,
                is_owed=True,
            )
            for owner in owners
            for handle, launched in owner.by_handle(LaunchedRun).items()
            if not launched.has_ended
        )

    def cancel(self, execution: str, session: str | None) -> bool:
        """Cancel a request or a run by its public id. Raises as ``FrameworkExecutions.cancel`` does."""
        return self._executions.cancel(execution, session)

    def drain(self, drain: bool) -> int:
        """Take no new requests, models, bindings and runs, or take them again; return how many wait and run.

        Run channels of native clients are closed, since direct runs would pass the framework by: such a client's runs
        go through the framework from then on, also when work is taken again, until it binds anew.
        """
        if drain != self._intake.is_closed:
            self._intake.is_closed = drain
            kind, done = ("drained", "drains") if drain else ("back", "takes work again")
            self._note(kind, "framework", f"the framework {done}")
        if self._model_server is not None:
            self._model_server.drain(drain)
        if drain:
            for owner in self._sessions.all():
                for binding in owner.all(SessionBinding):
                    binding.context.close_run_channel()
        return len(self._executions.live())

    def set_log_level(self, level: str) -> None:
        """Log from a level on, in front workers too, and have the log settings of the protocol say so."""
        if self._set_level is not None:
            self._set_level(level)
        else:
            show_logs(levels_from(level), SHOWN.whole_seconds)
