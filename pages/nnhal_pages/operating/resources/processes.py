"""Processes, and devices among them: state, work, and what is done with them, by a supervisor of nnhal or without."""

from __future__ import annotations

import signal as signals
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from google.protobuf.message import Message

from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import supervisor_pb2
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.snapshot import Detail, ObservedProcess, OperatorError
from nnhal_pages.operating.table import (
    Done,
    OperatedSystem,
    Resource,
    ResourceColumn,
    Verb,
    VerbChange,
    VerbOption,
    count_of,
    undoing,
)

DRAIN_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_NO_KEY = "only this command's own session is shown: the process has no supervisor of nnhal; --admin-key FILE shows all"
_FOREIGN = {
    wire.SUPERVISOR_UNSPECIFIED: ("nothing", "the program that started it"),
    wire.SUPERVISOR_NNHAL: ("another supervisor of nnhal", "that supervisor"),
    wire.SUPERVISOR_SYSTEMD: ("systemd", "systemctl"),
    wire.SUPERVISOR_CONTAINER: ("the engine of its container", "that engine, such as docker or podman"),
}
"""Supervisors that are not ours, and what operators steer their processes with."""
_OF_A_PROCESS = ("pid", "version", "started_ns", "supervisor", "draining", "log_level", "is_whole", "usage", "at_ns")
ProcessName = Annotated[str, VerbOption("A process, by its name in 'nnhal ps'.", names="processes")]
Draining = Annotated[bool, VerbOption("Let its work end first.")]


def optional(message: Message | None) -> dict[str, Any] | None:
    """Return the fields of a message, or None if there is none."""
    return None if message is None else plain(message)


def word(name: str) -> str:
    """Return the last words of an enumerator's name."""
    return name.partition("_")[2].lower()


def _value(observed: ObservedProcess) -> dict[str, Any]:
    process = observed.process
    fields: Mapping[str, Any] = {} if process is None else plain(process)
    return {
        "name": observed.name,
        "kind": observed.kind,
        "supervised": optional(observed.supervised),
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
        return word(supervisor_pb2.SupervisedProcess.State.Name(observed.supervised.state))
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
        yield f"{_FOREIGN[process.supervisor][0]} starts it again"
    if supervised is None or supervised.pid:
        yield from filter(None, (observed.silence, observed.lack))
    if process is not None and not process.is_whole:
        yield _NO_KEY


def start(at: OperatedSystem, name: ProcessName) -> Done:
    """Start a process that was stopped, or let one that was drained take work again."""
    process, change = at.look().known(name), _changed(at, name)
    undo = "stop" if change.before == "stopped" else "drain" if change.before in ("draining", "drained") else ""
    change = change._replace(undo=undo and undoing("processes", name, undo))
    if process.supervised is not None:
        started = at.contacts.supervisor().start(name)
        if process.supervised.pid == started.pid:
            return Done(f"{name} takes work again", plain(started), change=change)
        return _serves(started, change)
    if at.look().standing(name) is not None:
        at.contacts.framework().drain_device(name, drain=False)
    at.contacts.process(name).drain(drain=False)
    return Done(f"{name} takes work again", {"name": name}, change=change)


def stop(
    at: OperatedSystem,
    name: ProcessName,
    drain: Draining = False,
    remove: Annotated[bool, VerbOption("Also forget a device that 'nnhal ctl start' has added.")] = False,
) -> Done:
    """Stop a process until 'nnhal ctl start NAME'."""
    _require_ours(at, name, "stopped")
    change = _changed(at, name, "" if remove else "start")
    if remove:
        if drain:
            _require_idle(name, at.contacts.supervisor().drain(name))
        at.contacts.supervisor().remove_device(name)
    else:
        at.contacts.supervisor().stop(name, drain)
    return Done(f"{name} is {'removed' if remove else 'stopped'}", {"name": name, "removed": remove}, change=change)


def restart(at: OperatedSystem, name: ProcessName, drain: Draining = False) -> Done:
    """Stop a process and start it again. Under systemd or in a container it exits, and is started by those."""
    process, change = at.look().known(name), _changed(at, name)
    if process.supervised is not None:
        return _serves(at.contacts.supervisor().restart(name, drain), change)
    if drain:
        _require_idle(name, _drained(at, name, DRAIN_SECONDS))
    supervisor = _supervisor_of(at, process)
    who, tool = _FOREIGN[supervisor]
    if supervisor == wire.SUPERVISOR_UNSPECIFIED:
        raise OperatorError(f"{who} would start {name} again", f"restart it with {tool}")
    at.contacts.process(name).exit()
    return Done(f"{name} ends; {who} starts it again", {"name": name, "started_by": who}, change=change)


def drain(
    at: OperatedSystem,
    name: ProcessName,
    seconds: Annotated[float, VerbOption("How long to wait until it is idle.", 0.1, 3600)] = DRAIN_SECONDS,
) -> Done:
    """Have a device or the framework take no new work, and wait until it is idle. 'nnhal ctl start NAME' undoes it.

    Exit status 1 if it is not idle in time; it drains on.
    """
    change = _changed(at, name, "start")
    if at.look().known(name).supervised is not None:
        left = at.contacts.supervisor().drain(name, seconds)
    else:
        left = _drained(at, name, seconds)
    idle = not left.executions and not left.models
    what = "and has none" if idle else f"but is not idle: {_left(left)}"
    return Done(f"{name} takes no new work, {what}", {"name": name, "idle": idle, **plain(left)}, idle, change)


def kill(
    at: OperatedSystem,
    name: ProcessName,
    signal: Annotated[str, VerbOption("The signal, by name or number.")] = "SIGKILL",
) -> Done:
    """Send a process a signal. One that ends is started again."""
    number = signal_number(signal)
    _require_ours(at, name, "killed")
    change = _changed(at, name)
    pid = at.contacts.supervisor().kill(name, number)
    values = {"name": name, "pid": pid, "signal": number}
    return Done(f"{name}: process {pid} was sent {signal}", values, change=change)


def log_level(
    at: OperatedSystem, name: ProcessName, level: Annotated[str, VerbOption("debug, info, warning or error.")]
) -> Done:
    """Set the level from which on a process logs."""
    said = at.look().known(name).process
    before = said.log_level if said is not None else ""
    change = VerbChange(name, before, before and undoing("processes", name, "log-level", level=before))
    at.contacts.process(name).set_log_level(level)
    return Done(f"{name} logs from level {level} on", {"name": name, "level": level}, change=change)


def signal_number(text: str) -> int:
    """Return the number of a signal. Raises ValueError if no signal has this name."""
    if text.isdigit():
        return int(text)
    name = text.upper()
    try:
        return signals.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except KeyError:
        raise ValueError(f"signal {text!r}, expected a name such as SIGTERM, or a number") from None


def _serves(process: supervisor_pb2.SupervisedProcess, change: VerbChange) -> Done:
    return Done(f"{process.name} serves as process {process.pid}", plain(process), change=change)


def _changed(at: OperatedSystem, name: str, undo: str = "") -> VerbChange:
    """Return that a process is changed which is as it is now."""
    snapshot = at.look()
    before, standing = snapshot.known(name).state, snapshot.standing(name)
    if before == "up" and standing is not None and standing.draining:
        before = "draining"
    return VerbChange(name, before, undo and undoing("processes", name, undo))


def _supervisor_of(at: OperatedSystem, process: ObservedProcess) -> wire.Supervisor.ValueType:
    """Return what starts a process again that no supervisor of ours watches over."""
    said = process.process or at.contacts.process(process.name).process(brief=True)
    return said.supervisor


def _require_ours(at: OperatedSystem, name: str, act: str) -> None:
    """Raise OperatorError if no supervisor of ours can do what only a supervisor does."""
    process = at.look().known(name)
    if process.supervised is None:
        who, tool = _FOREIGN[_supervisor_of(at, process)]
        raise OperatorError(f"{name} cannot be {act} here: {who} supervises it", f"use {tool}")


def _require_idle(name: str, left: supervisor_pb2.DrainProcessResponse) -> None:
    if left.executions or left.models:
        raise OperatorError(
            f"{name} is not idle: {_left(left)}", f"it drains on; 'nnhal ctl start {name}' lets it take work again"
        )


def _left(left: supervisor_pb2.DrainProcessResponse) -> str:
    models = f"; these models still use it: {', '.join(left.models)}" if left.models else ""
    return f"{count_of(left.executions, 'execution')} run or wait{models}"


def _drained(at: OperatedSystem, name: str, seconds: float) -> supervisor_pb2.DrainProcessResponse:
    """Drain a process that nnhal does not supervise: the process itself, and a device also in the framework."""
    until = time.monotonic() + seconds
    is_used = at.look().standing(name) is not None
    while True:
        models = at.contacts.framework().drain_device(name) if is_used else []
        executions = at.contacts.process(name).drain()
        left = supervisor_pb2.DrainProcessResponse(executions=executions, models=models)
        if not (left.executions or left.models) or time.monotonic() > until:
            return left
        time.sleep(_LOOK_SECONDS)


VERBS = (
    Verb("start", start),
    Verb("stop", stop),
    Verb("restart", restart),
    Verb("drain", drain),
    Verb("kill", kill),
    Verb("log-level", log_level),
)
_UNKNOWN = wire.GetProcessResponse()
PROCESSES = Resource(
    "processes",
    "Processes: state, age, restarts, memory, sessions, work, addresses, how they ended last.",
    (
        ResourceColumn("process", lambda p: p.name),
        ResourceColumn("kind", _kind),
        ResourceColumn("state", _state),
        ResourceColumn("pid", lambda p: (p.supervised or p.process or _UNKNOWN).pid or None),
        ResourceColumn("age", lambda p: (p.supervised or p.process or _UNKNOWN).started_ns, "ns since boot"),
        ResourceColumn("restarts", lambda p: p.supervised and p.supervised.restarts),
        ResourceColumn("memory", lambda p: p.process and p.process.usage.resident_bytes, "B"),
        ResourceColumn("threads", lambda p: p.process and p.process.usage.threads),
        ResourceColumn("sessions", lambda p: p.process and len(p.process.sessions)),
        ResourceColumn("work", lambda p: p.process and _work(p.process)),
        ResourceColumn("remarks", lambda p: "; ".join(_remarks(p))),
    ),
    "no processes",
    lambda snapshot: ((process,) for process in snapshot.processes),
    value=_value,
    needs=Detail.SESSIONS,
    verbs=VERBS,
)
