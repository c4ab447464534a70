"""Resources of a testbed, by name: how each kind of things is found in a snapshot, and written as a row and as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.protobuf.message import Message

from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import framework_admin_pb2, supervisor_pb2, types_pb2
from nnhal_pages.copies import copied_figures
from nnhal_pages.operating.plain import plain, plain_value
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess, Snapshot
from nnhal_pages.units import duration, lasting, size

_NO_KEY = "only this command's own session is shown: the process has no supervisor of nnhal; --admin-key FILE shows all"
_FOREIGN = {
    wire.SUPERVISOR_UNSPECIFIED: "nothing",
    wire.SUPERVISOR_NNHAL: "another supervisor of nnhal",
    wire.SUPERVISOR_SYSTEMD: "systemd",
    wire.SUPERVISOR_CONTAINER: "the engine of its container",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of things. One of them is a tuple, which cells and values are functions of."""

    name: str
    """Plural, as operators and addresses have it."""
    about: str
    """What they are, in a sentence."""
    items: Callable[[Snapshot], Iterable[tuple[Any, ...]]]
    cells: Mapping[str, Callable[..., str]]
    """What people read of one, by the heads of columns; empty for what is not known."""
    empty: str
    """What is told if there are none."""
    value: Callable[..., dict[str, Any]] = plain
    """All that is known of one of them, for JSON."""
    needs: Detail = NO_DETAIL
    """What processes must have been asked for."""
    of_framework: bool = False
    """True if the framework alone knows them."""
    parts: Mapping[str, Callable[..., bool]] = field(default_factory=dict)
    """By which names JSON has them, and which ones; all by the resource's own name if there are none."""

    def row(self, item: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the cells of one, in the order of the columns."""
        return tuple(cell(*item) for cell in self.cells.values())

    def as_json(self, items: Iterable[tuple[Any, ...]]) -> dict[str, list[dict[str, Any]]]:
        """Return lists of values by name."""
        items = list(items)
        parts = self.parts or {self.name: lambda *_: True}
        return {name: [self.value(*item) for item in items if has(*item)] for name, has in parts.items()}


def foreign_supervisor(process: wire.GetProcessResponse) -> str:
    """Name, in plain words, the supervisor that starts a process again and is not ours."""
    return _FOREIGN[process.supervisor]


def clock(at_ns: int) -> str:
    """The time of day, with milliseconds, of an instant in nanoseconds since the epoch."""
    return datetime.fromtimestamp(at_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]


def since(at_ns: int) -> str:
    """Return how long ago an instant of CLOCK_BOOTTIME was; empty for 0."""
    return lasting(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - at_ns) if at_ns else ""


def _word(name: str) -> str:
    """The last words of an enumerator's name."""
    return name.partition("_")[2].lower()


def _said(cell: Callable[[Any], str]) -> Callable[..., str]:
    """A cell of what may not be known, which is then empty."""
    return lambda known, *_: "" if known is None else cell(known)


def _optional(message: Message | None) -> dict[str, Any] | None:
    return None if message is None else plain(message)


_OF_A_PROCESS = ("pid", "version", "started_ns", "supervisor", "draining", "log_level", "is_whole", "usage", "at_ns")


def _process_value(observed: ObservedProcess) -> dict[str, Any]:
    process = observed.process
    fields: Mapping[str, Any] = {} if process is None else plain(process)
    return {
        "name": observed.name,
        "kind": observed.kind,
        "supervised": _optional(observed.supervised),
        "problem": observed.silence or observed.lack or None,
        **{name: fields.get(name) for name in _OF_A_PROCESS},
        "session_count": None if process is None else len(process.sessions),
        "execution_count": None if process is None else len(process.executions),
    }


def _kind(observed: ObservedProcess) -> str:
    driver = observed.supervised.driver if observed.supervised is not None else ""
    return f"{observed.kind}, {driver}" if driver else observed.kind


def _state(observed: ObservedProcess) -> str:
    if observed.supervised is not None:
        return _word(supervisor_pb2.SupervisedProcess.State.Name(observed.supervised.state))
    if observed.process is None:
        return "silent" if observed.silence else "no admin service"
    return "draining" if observed.process.draining else "running"


def _work(process: wire.GetProcessResponse) -> str:
    running = sum(each.phase == wire.ExecutionState.PHASE_RUNNING for each in process.executions)
    return f"{running} run, {len(process.executions) - running} wait"


def _remarks(observed: ObservedProcess) -> Iterator[str]:
    supervised, process = observed.supervised, observed.process
    if supervised is not None:
        yield from supervised.addresses
        if supervised.runs_already and supervised.pid:
            yield "something else starts it"
        if supervised.waits_for:
            yield f"waits for {supervised.waits_for}"
        if supervised.last_end and (process is None or supervised.restarts):
            yield f"last end: {supervised.last_end.splitlines()[0]}"
    elif process is not None:
        yield f"{foreign_supervisor(process)} starts it again"
    if supervised is None or supervised.pid:
        yield from filter(None, (observed.silence, observed.lack))
    if process is not None and not process.is_whole:
        yield _NO_KEY


def _held(name: str, about: str, cells: Mapping[str, Callable[[ObservedProcess, Any], str]]) -> Resource:
    """Return what processes hold, by the field of GetProcessResponse: the process, and what it says of one."""
    return Resource(
        name,
        about,
        lambda snapshot: ((p, item) for p in snapshot.processes if p.process for item in getattr(p.process, name)),
        cells,
        f"no {name}",
        lambda process, item: {"process": process.name, **plain(item)},
        Detail.SESSIONS,
    )


def _objects(session: wire.SessionState) -> str:
    counts = (f"{count.count} {count.kind}{'' if count.count == 1 else 's'}" for count in session.objects)
    return ", ".join(counts) or "nothing"


def _deadline(process: ObservedProcess, execution: wire.ExecutionState) -> str:
    left = execution.deadline_ns - _now_ns(process)
    return "" if execution.deadline_ns < 0 else f"in {lasting(left)}" if left >= 0 else f"{lasting(-left)} ago"


def _now_ns(process: ObservedProcess) -> int:
    """Return when a process answered."""
    return process.process.at_ns if process.process is not None else 0


def _device_value(device: ObservedProcess, standing: framework_admin_pb2.DeviceStanding | None) -> dict[str, Any]:
    return {
        "name": device.name,
        "problem": device.silence or device.lack or None,
        "standing": _optional(standing),
        "identity": plain_value(device.identity),
        "description": plain_value(device.description),
        "device": _optional(device.device),
    }


def _use(device: ObservedProcess, standing: framework_admin_pb2.DeviceStanding | None) -> str:
    use = ""
    if standing is not None:
        use = "draining" if standing.draining else "in use" if standing.available else f"not used: {standing.reason}"
    return "; ".join(filter(None, (use, device.silence, device.lack)))


def _of_device(cell: Callable[[wire.GetDeviceResponse], str]) -> Callable[..., str]:
    return lambda device, _: "" if device.device is None else cell(device.device)


def _buffers(state: wire.GetDeviceResponse) -> str:
    limit = f" of {size(state.buffer_limit_bytes)}" if state.buffer_limit_bytes else ""
    return size(state.buffer_bytes) + limit


def _models(snapshot: Snapshot) -> Iterator[tuple[Any, bool]]:
    """Models of the repository, and those that sessions have loaded; with each whether it is served."""
    if snapshot.framework is not None:
        yield from ((model, True) for model in snapshot.framework.models)
        yield from ((model, False) for model in snapshot.framework.session_models)


def _model_state(model: Any, is_served: bool) -> str:
    if not is_served:
        return f"of session framework/{model.session}, {model.bindings} bound"
    return f"{model.state} ({model.reason})" if model.reason else str(model.state)


def _model_devices(model: Any, is_served: bool) -> str:
    missing = f" (without {', '.join(model.missing)})" if is_served and model.missing else ""
    return ", ".join(model.devices) + missing


def _oldest(model: Any, is_served: bool) -> str:
    oldest_ns = model.oldest_request_ns if is_served else model.oldest_run_ns
    return lasting(oldest_ns) if oldest_ns else "-"


def _if_served(cell: Callable[[framework_admin_pb2.ServedModelState], str]) -> Callable[..., str]:
    return lambda model, is_served: cell(model) if is_served else ""


def _mean(model: framework_admin_pb2.ServedModelState) -> str:
    return duration(model.counts.duration_ns / model.counts.requests if model.counts.requests else -1)


def _copied(number: int) -> Callable[..., str]:
    return lambda run: copied_figures(run.copied, size)[number]


_ALL = (
    Resource(
        "processes",
        "Processes: state, age, restarts, memory, sessions, work, addresses, how they ended last.",
        lambda snapshot: ((process,) for process in snapshot.processes),
        {
            "process": lambda p: p.name,
            "kind": _kind,
            "state": _state,
            "pid": lambda p: _said(lambda fields: str(fields.pid or ""))(p.supervised or p.process),
            "age": lambda p: _said(lambda fields: since(fields.started_ns))(p.supervised or p.process),
            "restarts": lambda p: _said(lambda supervised: str(supervised.restarts))(p.supervised),
            "memory": lambda p: _said(lambda process: size(process.usage.resident_bytes))(p.process),
            "threads": lambda p: _said(lambda process: str(process.usage.threads))(p.process),
            "sessions": lambda p: _said(lambda process: str(len(process.sessions)))(p.process),
            "work": lambda p: _said(_work)(p.process),
            "remarks": lambda p: "; ".join(_remarks(p)),
        },
        "no processes",
        _process_value,
        Detail.SESSIONS,
    ),
    _held(
        "sessions",
        "Who has a link open: client, user, command, age, and what the session owns.",
        {
            "id": lambda p, session: f"{p.name}/{session.id}",
            "client": lambda _, session: session.client_name,
            "owner": lambda _, session: f"{session.owner}, {session.user or f'user {session.uid}'}",
            "command": lambda _, session: session.command,
            "age": lambda _, session: since(session.opened_ns),
            "owns": lambda _, session: _objects(session),
        },
    ),
    _held(
        "pools",
        "Shared memory of sessions, and arenas.",
        {
            "session": lambda p, pool: f"{p.name}/{pool.session}" if pool.session else p.name,
            "kind": lambda _, pool: pool.kind,
            "size": lambda _, pool: size(pool.bytes),
            "use": lambda _, pool: "staged" if pool.staged else "mapped" if pool.mapped else "not used",
            "seals": lambda _, pool: ", ".join(pool.seals),
            "memory": lambda _, pool: pool.memory,
            "purpose": lambda _, pool: pool.purpose,
        },
    ),
    _held(
        "buffers",
        "Buffers of memory domains, with their roles.",
        {
            "session": lambda p, buffer: f"{p.name}/{buffer.session}",
            "token": lambda _, buffer: str(buffer.token),
            "size": lambda _, buffer: size(buffer.bytes),
            "type": lambda _, buffer: f"{buffer.type} [{', '.join(map(str, buffer.dimensions))}]",
            "roles": lambda _, buffer: ", ".join(buffer.roles),
            "holds": lambda _, buffer: "values" if buffer.initialized else "none",
        },
    ),
    _held(
        "executions",
        "What waits and runs, with deadline and priority.",
        {
            "id": lambda p, execution: f"{p.name}/{execution.id}",
            "what": lambda _, execution: execution.what,
            "phase": lambda _, execution: _word(wire.ExecutionState.Phase.Name(execution.phase)),
            "for": lambda p, execution: lasting(_now_ns(p) - execution.since_ns),
            "deadline": _deadline,
            "priority": lambda _, execution: _word(types_pb2.Priority.Name(execution.priority)),
            "client": lambda _, execution: execution.client or execution.session,
            "request": lambda _, execution: execution.request_id,
        },
    ),
    _held(
        "fences",
        "Fences that have not signalled, and who owes them.",
        {
            "session": lambda p, fence: f"{p.name}/{fence.session}",
            "process": lambda _, fence: "owes" if fence.is_owed else "waits",
            "owed by": lambda _, fence: fence.owed_by,
            "awaited by": lambda _, fence: fence.awaited_by,
            "age": lambda p, fence: lasting(_now_ns(p) - fence.since_ns),
        },
    ),
    Resource(
        "devices",
        "Devices: drivers, how the framework uses them, queues, executions, staged bytes, models.",
        lambda snapshot: ((device, snapshot.standing(device.name)) for device in snapshot.devices),
        {
            "device": lambda device, _: device.name,
            "driver": lambda device, _: _said(lambda identity: identity.version)(device.identity),
            "type": lambda device, _: _said(lambda identity: identity.type.name)(device.identity),
            "use": _use,
            "runs": _of_device(lambda state: f"{state.running}/{state.workers}"),
            "waits": _of_device(lambda state: str(state.waiting)),
            "executions": _of_device(lambda state: str(state.executions_ended)),
            "staged": _of_device(lambda state: size(state.staged_bytes)),
            "buffers": _of_device(_buffers),
            "models": lambda _, standing: _said(lambda standing: ", ".join(standing.models))(standing),
        },
        "no devices",
        _device_value,
        Detail.DEVICES,
    ),
    Resource(
        "models",
        "Models that are served, and those that native clients have loaded.",
        _models,
        {
            "model": lambda model, _: model.name,
            "version": _if_served(lambda model: model.version),
            "state": _model_state,
            "devices": _model_devices,
            "requests": _if_served(lambda model: str(model.counts.requests)),
            "failures": _if_served(lambda model: str(model.counts.failures)),
            "mean": _if_served(_mean),
            "queued": _if_served(lambda model: str(model.queued)),
            "oldest": _oldest,
            "arena": lambda model, _: size(model.arena_bytes),
        },
        "no models; 'nnhal ctl load NAME' loads one of the repository",
        lambda model, _: plain(model),
        of_framework=True,
        parts={"served": lambda _, is_served: is_served, "of_sessions": lambda _, is_served: not is_served},
    ),
    Resource(
        "runs",
        "Runs that have ended, the newest last: whose, where, how long, bytes copied, outcome.",
        lambda snapshot: ((run,) for run in snapshot.finished),
        {
            "run": lambda run: str(run.number),
            "model": lambda run: f"{run.model} {run.version}".strip(),
            "client": lambda run: run.client,
            "request": lambda run: run.request_id,
            "ended": lambda run: f"{since(run.ended_ns)} ago",
            "took": lambda run: duration(run.ended_ns - run.arrived_ns),
            "queue": lambda run: duration(run.queue_ns),
            "devices": lambda run: ", ".join(run.devices),
            **{name: _copied(number) for number, name in enumerate(("between", "clients", "staged"))},
            "outcome": lambda run: run.error or ("fell back" if run.fell_back else "succeeded"),
        },
        "no such runs are kept",
        needs=Detail.RUNS,
        of_framework=True,
    ),
    Resource(
        "recordings",
        "Recordings of runs that the framework keeps, whoever made them.",
        lambda snapshot: ((state,) for state in snapshot.recordings),
        {
            "recording": lambda state: str(state.number),
            "model": lambda state: state.model or "all",
            "runs": lambda state: str(state.runs),
            "to come": lambda state: str(state.left),
        },
        "nothing has been recorded",
        needs=Detail.RUNS,
        of_framework=True,
    ),
    Resource(
        "events",
        "What has happened: processes that died, devices lost and back, models planned again, fallbacks.",
        lambda snapshot: ((event,) for event in snapshot.events),
        {
            "at": lambda event: clock(event.at_ns),
            "of": lambda event: event.subject,
            "what": lambda event: event.kind,
            "in a sentence": lambda event: event.text,
        },
        "nothing has happened",
    ),
)
RESOURCES: Mapping[str, Resource] = {each.name: each for each in _ALL}
"""In the order in which help lists them."""
