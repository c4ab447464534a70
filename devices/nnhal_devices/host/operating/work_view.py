"""Running and waiting executions of a device, as operators see them. It is looked up when they ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from nnhal.errors import general_failure, invalid_argument
from nnhal.extensions import type_in_words
from nnhal.fence import Fence, FenceState
from nnhal.types import Model, OperationType
from nnhal.types.layout import is_extension
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_devices.host.runs.bound_run import RunnableModel
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.launch import Launch, Sync
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.runs.scheduler import Scheduler
from nnhal_devices.host.sessions.client_session import ClientSession

_WAITING = wire.ExecutionState.PHASE_WAITING
_FENCED = wire.ExecutionState.PHASE_FENCED
_RUNNING = wire.ExecutionState.PHASE_RUNNING


class ShownWork(NamedTuple):
    """An execution that runs or waits."""

    id: str
    """By which it is cancelled. That of a launched execution stays the same until it has ended."""

    client: ClientSession
    execution: Execution
    phase: wire.ExecutionState.Phase.ValueType
    since_ns: int
    deadline_ns: int

    number: int = 0
    """The scheduler's; 0 if the scheduler does not have it."""

    launch: Launch | None = None
    """If it was launched."""

    @property
    def is_enqueued(self) -> bool:
        """Return whether it is in the command queue of the device."""
        return self.launch is not None and self.launch.is_enqueued

    @property
    def state(self) -> wire.ExecutionState:
        """Return what operators see of it."""
        execution, session = self.execution, self.client.session
        name = names_of(self.client).get(execution.prepared, RELEASED)
        return wire.ExecutionState(
            id=self.id,
            session=session.id,
            what=f"{name}: {summary_of(execution.prepared.model.model)}",
            phase=self.phase,
            since_ns=self.since_ns,
            deadline_ns=self.deadline_ns,
            priority=types_pb2.Priority.ValueType(execution.priority),
            client=session.title,
            can_be_cancelled=not self.is_enqueued,
        )


def work_of(scheduler: Scheduler, clients: Iterable[ClientSession], session: str | None) -> list[ShownWork]:
    """Return what runs and waits, first what runs: that of the session of a public id, or with None all.

    ``clients`` are those whose launches are looked at. What a session has begun runs on when the session is over.
    """
    launched = {
        launch.execution: (f"l{number}", client, launch)
        for client in clients
        for number, launch in client.launched.all(Launch).items()
    }
    running, queued = scheduler.admissions()
    found = []
    for phase, admissions in ((_RUNNING, running), (_WAITING, queued)):
        for number, execution, control, since_ns in admissions:
            if isinstance(execution, Execution) and isinstance(execution.owner, ClientSession):
                name, _, launch = launched.pop(execution, (f"e{number:x}", None, None))
                owner = execution.owner
                found.append(ShownWork(name, owner, execution, phase, since_ns, control.deadline_ns, number, launch))
    for execution, (name, client, launch) in launched.items():
        phase = _FENCED if _pending(launch.fences) else _WAITING
        found.append(ShownWork(name, client, execution, phase, launch.launched_ns, launch.deadline_ns, 0, launch))
    return [work for work in found if session in (None, work.client.session.id)]


def title_of(execution: object) -> str:
    """Return what the log calls an execution: its session, its prepared model, and the operations of that."""
    if not isinstance(execution, Execution) or not isinstance(execution.owner, ClientSession):
        return "an execution"
    name = names_of(execution.owner).get(execution.prepared, RELEASED)
    return f"{name} of {execution.owner.session.title}: {summary_of(execution.prepared.model.model)}"


def cancel_work(scheduler: Scheduler, clients: Collection[ClientSession], wanted: str, session: str | None) -> bool:
    """Cancel what runs or waits under an id; return whether it has ended. Raises as ``Administered.cancel`` does.

    Raises GENERAL_FAILURE if it is in the command queue of the device.
    """

    def find() -> ShownWork | None:
        return next((work for work in work_of(scheduler, clients, session) if work.id == wanted), None)

    work = find()
    if work is None:
        invalid_argument(f"no execution {wanted!r} runs or waits{f' in session {session}' if session else ''}")
    if work.is_enqueued:
        general_failure(f"execution {wanted} is in the command queue of the device, which does all that is in it")
    if work.number == 0 and work.launch is not None:
        if work.launch.cancel():
            return True
        work = find()  # it has begun in the meantime
    if work is None:
        return True
    return work.number > 0 and scheduler.cancel(work.number) is not False


def fences_of(clients: Iterable[ClientSession]) -> list[wire.FenceState]:
    """Return the fences that launches and syncs of some sessions owe, and those that they wait for."""
    return [state for client in clients for state in _fences_of(client)]


def _fences_of(client: ClientSession) -> Iterator[wire.FenceState]:
    names, session = names_of(client), client.session.id
    for number, launched in client.launched.all(object).items():
        if isinstance(launched, Launch):
            what = f"launch {number} of {names.get(launched.execution.prepared, RELEASED)}"
        elif isinstance(launched, Sync):
            what = f"sync {number} of the command queue"
        else:
            continue
        since_ns = launched.launched_ns
        if launched.signal is not None:
            yield wire.FenceState(session=session, owed_by=what, since_ns=since_ns, is_owed=True)
        for _ in _pending(launched.fences):
            yield wire.FenceState(session=session, awaited_by=what, since_ns=since_ns)


def _pending(fences: Iterable[Fence]) -> list[Fence]:
    return [fence for fence in fences if fence.state is FenceState.PENDING]


RELEASED = "a released prepared model"
_MOST_KINDS = 3
"""Kinds of operations that a summary names."""


def names_of(client: ClientSession) -> Mapping[RunnableModel, str]:
    """Return the names of a session's prepared models: those that it has released have none."""
    return {prepared: f"prepared model {handle}" for handle, prepared in client.by_handle(PreparedModel).items()}


def summary_of(model: Model) -> str:
    """Say what a model computes, in a few words: ``12 operations: 5 CONV_2D, 4 ADD, 2 RELU and others``."""
    codes = [operation.type for operation in model.main.operations]
    kinds = Counter(_kind(model, code) for code in codes).most_common()
    named = ", ".join(f"{count} {kind}" if len(codes) > 1 else kind for kind, count in kinds[:_MOST_KINDS])
    others = " and others" if len(kinds) > _MOST_KINDS else ""
    return f"{len(codes)} operation{'s' if len(codes) > 1 else ''}: {named}{others}"


def _kind(model: Model, code: int) -> str:
    return f"operation {type_in_words(model, code)}" if is_extension(code) else OperationType(code).name
