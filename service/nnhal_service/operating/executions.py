"""Executions of the framework: requests over the protocol, and runs of native clients that pass through it.

Direct runs pass it by: devices tell of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.clock import boottime_shift
from nnhal.errors import invalid_argument
from nnhal.types import Priority
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_service.native.session import NativeSession, NativeSessions, SessionBinding
from nnhal_service.operating.run_history import NamedRequest, RunHistory
from nnhal_service.runtime.context.run_state import RunInFlight

_Phase = wire.ExecutionState


class FrameworkExecutions:
    """Lists and cancels executions. Safe to use from several threads."""

    def __init__(self, sessions: NativeSessions, history: RunHistory) -> None:
        self._sessions = sessions
        self._history = history

    def live(self, session: str | None = None) -> list[wire.ExecutionState]:
        """Return what waits and runs: of the session of a public id, or with None all, requests included."""
        states = [] if session is not None else [_request_state(named) for named in self._history.look()]
        for owner in self._sessions.all():
            if session in (None, owner.session.id):
                states.extend(_runs_of(owner))
        return sorted(states, key=_since)

    def cancel(self, execution: str, session: str | None) -> bool:
        """Cancel an execution by its public id: of a session, or with None any. Returns whether it had not begun.

        Raises INVALID_ARGUMENT if there is none of that id, or if it cannot be cancelled.
        """
        if session is None:
            was_waiting = self._history.cancel(execution)
            if was_waiting is not None:
                return was_waiting
        for owner in self._sessions.all():
            if session not in (None, owner.session.id):
                continue
            for handle, binding in owner.by_handle(SessionBinding).items():
                running = binding.context.running
                if running is None or _run_id(owner, handle, running) != execution:
                    continue
                if binding.context.cancel(running):
                    return False
        invalid_argument(f"there is no execution {execution!r}, or it has ended")


def _request_state(named: NamedRequest) -> wire.ExecutionState:
    request = named.request
    return wire.ExecutionState(
        id=named.id,
        what=f"{request.model} {request.version}",
        phase=_Phase.PHASE_RUNNING if request.is_running else _Phase.PHASE_WAITING,
        since_ns=request.since_ns,
        deadline_ns=request.deadline_ns,
        priority=types_pb2.Priority.ValueType(request.priority),
        client=request.client,
        request_id=request.request_id,
        can_be_cancelled=True,
    )


def _runs_of(owner: NativeSession) -> Iterator[wire.ExecutionState]:
    names = {model: name for name, model in owner.models.items()}
    shift = boottime_shift()
    for handle, binding in owner.by_handle(SessionBinding).items():
        running = binding.context.running
        if running is None:
            continue
        yield wire.ExecutionState(
            id=_run_id(owner, handle, running),
            session=owner.session.id,
            what=names.get(binding.model, "a model that is unloaded"),
            phase=_Phase.PHASE_FENCED if running.is_launched else _Phase.PHASE_RUNNING,
            since_ns=running.since_ns + shift,
            deadline_ns=running.deadline_ns,
            priority=types_pb2.Priority.ValueType(_priority_of(binding)),
            client=owner.client,
            can_be_cancelled=True,
        )


def _run_id(owner: NativeSession, handle: int, running: RunInFlight) -> str:
    """The instant tells a run from others of the same binding."""
    return f"{owner.session.id}.b{handle}.{running.since_ns}"


def _priority_of(binding: SessionBinding) -> Priority:
    return binding.context.prepared.priority


def _since(state: wire.ExecutionState) -> int:
    return state.since_ns
