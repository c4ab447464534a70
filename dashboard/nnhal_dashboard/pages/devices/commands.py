"""Commands to a process: by nnhal's supervisor, or without it by the process itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.contacts import Contacts
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot

_STATES = supervisor_pb2.SupervisedProcess.State
Act = Callable[[Contacts, ObservedProcess, Snapshot], str | None]
"""Does it; may return how it went, in a sentence."""


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """Something that an operator may have done with a process."""

    name: str
    """The last part of its address."""
    label: str
    done: str
    """What is told when it is done; the name of the process stands before it."""
    act: Act
    question: str = ""
    """What is asked before it is done; nothing if it does no harm."""
    kind: str = ""
    """The look of its button."""


def _restart(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.supervisor().restart(process.name, drain=True)


def _restart_cold(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.supervisor().restart(process.name)


def _start(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.supervisor().start(process.name)


def _stop(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.supervisor().stop(process.name)


def _kill(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> str:
    return f"That was process {contacts.supervisor().kill(process.name)}."


def _remove(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.supervisor().remove_device(process.name)


def _exit(contacts: Contacts, process: ObservedProcess, _: Snapshot) -> None:
    contacts.process(process.name).exit()


def _drain(contacts: Contacts, process: ObservedProcess, snapshot: Snapshot) -> str:
    if process.supervised is not None:
        left = contacts.supervisor().drain(process.name)
        return _left(left.executions, list(left.models))
    if snapshot.standing(process.name) is not None:
        return _left(0, contacts.framework().drain_device(process.name))
    return _left(contacts.process(process.name).drain(), [])


def _undrain(contacts: Contacts, process: ObservedProcess, snapshot: Snapshot) -> None:
    if process.supervised is not None:
        contacts.supervisor().start(process.name)
        return
    if snapshot.standing(process.name) is not None:
        contacts.framework().drain_device(process.name, drain=False)
    if process.process is not None and process.process.draining:
        contacts.process(process.name).drain(drain=False)


def _left(executions: int, models: list[str]) -> str:
    if not executions and not models:
        return "It is idle."
    used = f"; these models still use it: {', '.join(models)}" if models else ""
    return f"{executions} executions run or wait{used}."


RESTART = ProcessCommand("restart", "Restart when idle", "was started again.", _restart)
RESTART_COLD = ProcessCommand(
    "restart-cold",
    "Restart now",
    "was started again.",
    _restart_cold,
    "Restart it now? What it executes fails.",
    "grave",
)
DRAIN = ProcessCommand("drain", "Drain", "takes no new work.", _drain)
UNDRAIN = ProcessCommand("undrain", "Take work again", "takes work again.", _undrain)
START = ProcessCommand("start", "Start", "was started.", _start)
STOP = ProcessCommand("stop", "Stop", "was stopped.", _stop, "Stop it? What it executes fails.", "grave")
KILL = ProcessCommand("kill", "Kill", "was killed, and is being started again.", _kill, "Send it SIGKILL?", "grave")
REMOVE = ProcessCommand(
    "remove", "Remove", "was removed.", _remove, "Stop this device, and have the framework forget it?", "grave"
)
EXIT = ProcessCommand(
    "exit", "Exit to be started again", "exits.", _exit, "Have it exit? What it executes fails.", "grave"
)
COMMANDS = {
    command.name: command for command in (RESTART, RESTART_COLD, DRAIN, UNDRAIN, START, STOP, KILL, REMOVE, EXIT)
}


def commands_for(process: ObservedProcess, snapshot: Snapshot) -> tuple[ProcessCommand, ...]:
    """Return what may be done with a process in its present state."""
    if process.kind not in ("device", "framework"):
        return ()
    return tuple(_supervised(process) if process.supervised is not None else _unsupervised(process, snapshot))


def supervision_of(process: ObservedProcess) -> str:
    """Say who starts a process again if it ends, and what that means for an operator."""
    if process.supervised is not None:
        return "nnhal up starts it again when it dies."
    said = process.process
    match said.supervisor if said is not None else admin_pb2.SUPERVISOR_UNSPECIFIED:
        case admin_pb2.SUPERVISOR_NNHAL:
            return "A supervisor of nnhal that this dashboard does not reach starts it again when it ends."
        case admin_pb2.SUPERVISOR_SYSTEMD:
            return "systemd supervises it: whether it is started again when it exits is for its unit to say (Restart=)."
        case admin_pb2.SUPERVISOR_CONTAINER:
            return "It is in a container: whether it is started again when it exits is for its restart policy to say."
    return "Nothing that it knows of starts it again when it ends."


def _supervised(process: ObservedProcess) -> Iterator[ProcessCommand]:
    assert process.supervised is not None
    state = process.supervised.state
    if state == _STATES.STATE_STOPPED:
        yield START
    elif state == _STATES.STATE_WAITING:
        yield from (START, STOP)
    elif state == _STATES.STATE_STARTING:
        yield from (STOP, KILL)
    else:
        is_open = state == _STATES.STATE_RUNNING
        if process.answers:
            yield from (DRAIN if is_open else UNDRAIN, RESTART)
        yield from (RESTART_COLD, STOP, KILL)
    if process.supervised.is_added:
        yield REMOVE


def _unsupervised(process: ObservedProcess, snapshot: Snapshot) -> Iterator[ProcessCommand]:
    said = process.process
    if said is None or not process.answers or not said.is_whole:
        return
    standing = snapshot.standing(process.name)
    yield UNDRAIN if said.draining or (standing is not None and standing.draining) else DRAIN
    if said.supervisor != admin_pb2.SUPERVISOR_UNSPECIFIED:
        yield EXIT
