"""Buttons of a process: the verbs that a page offers in its present state, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_pages.operating.resources import devices, processes
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot
from nnhal_pages.operating.table import Done

_STATES = supervisor_pb2.SupervisedProcess.State


@dataclass(frozen=True, slots=True)
class ProcessButton:
    """A button that has something done with a process."""

    name: str
    """The last part of its address."""
    label: str
    act: Callable[..., Done]
    """What a verb does."""
    given: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    """What is asked before it is done; nothing if it does no harm."""


RESTART = ProcessButton("restart", "Restart when idle", processes.restart, {"drain": True})
RESTART_COLD = ProcessButton(
    "restart-cold", "Restart now", processes.restart, question="Restart it now? What it executes fails."
)
DRAIN = ProcessButton("drain", "Drain", processes.drain)
UNDRAIN = ProcessButton("undrain", "Take work again", processes.start)
START = ProcessButton("start", "Start", processes.start)
STOP = ProcessButton("stop", "Stop", processes.stop, question="Stop it? What it executes fails.")
KILL = ProcessButton("kill", "Kill", processes.kill, question="Send it SIGKILL?")
REMOVE = ProcessButton(
    "remove", "Remove", devices.remove, question="Stop this device, and have the framework forget it?"
)
EXIT = ProcessButton(
    "exit", "Exit to be started again", processes.restart, question="Have it exit? What it executes fails."
)
BUTTONS = {button.name: button for button in (RESTART, RESTART_COLD, DRAIN, UNDRAIN, START, STOP, KILL, REMOVE, EXIT)}


def buttons_for(process: ObservedProcess, snapshot: Snapshot) -> tuple[ProcessButton, ...]:
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


def _supervised(process: ObservedProcess) -> Iterator[ProcessButton]:
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


def _unsupervised(process: ObservedProcess, snapshot: Snapshot) -> Iterator[ProcessButton]:
    said = process.process
    if said is None or not process.answers or not said.is_whole:
        return
    standing = snapshot.standing(process.name)
    yield UNDRAIN if said.draining or (standing is not None and standing.draining) else DRAIN
    if said.supervisor != admin_pb2.SUPERVISOR_UNSPECIFIED:
        yield EXIT
