"""Faults: what devices that were started with ``--allow-faults`` do wrong on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nnhal.errors import NnhalError
from nnhal.remote.faults import FaultState
from nnhal_pages.operating.resources.processes import ProcessName
from nnhal_pages.operating.snapshot import Snapshot
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

_OWN_COLUMN = {"name", "what", "device"}


def set_fault(
    at: OperatedSystem,
    name: ProcessName,
    fault: Annotated[
        dict[str, Any], VerbOption("The keys of a fault, as in a file of faults: what, operation, times, …")
    ],
) -> Done:
    """Have a device misbehave."""
    names = at.contacts.set_faults(name, fault)
    undo = undoing("faults", name, "clear", faults=names)
    return Done(
        f"{name} has the fault {', '.join(names)}.", {"name": name, "set": names}, change=VerbChange(name, undo=undo)
    )


def clear(
    at: OperatedSystem,
    name: ProcessName,
    faults: Annotated[list[str] | None, VerbOption("Names of faults; all without one.")] = None,
) -> Done:
    """Remove faults of a device. What they have hang goes on."""
    cleared = at.contacts.clear_faults(name, tuple(faults or ()))
    values = {"name": name, "cleared": cleared}
    return Done(f"{name}: {count_of(cleared, 'fault')} cleared.", values, change=VerbChange(name))


def settings(state: FaultState) -> str:
    """Return what a fault is set to, beside what it does."""
    rest = {key: value for key, value in state.fault.items() if key not in _OWN_COLUMN}
    return ", ".join(
        f"{key} {' '.join(map(str, each)) if isinstance(each, list) else each}" for key, each in rest.items()
    )


def _states(at: OperatedSystem, snapshot: Snapshot) -> Iterator[tuple[str, FaultState]]:
    for device in snapshot.devices:
        try:
            yield from ((device.name, state) for state in at.contacts.fault_states(device.name))
        except NnhalError:  # it takes none, or does not answer
            continue


FAULTS = Resource(
    "faults",
    "Faults of devices, and how often each has happened.",
    (
        ResourceColumn("device", lambda device, _: device),
        ResourceColumn("fault", lambda _, state: state.name),
        ResourceColumn("what", lambda _, state: state.fault["what"]),
        ResourceColumn("set to", lambda _, state: settings(state)),
        ResourceColumn("met", lambda _, state: state.met),
        ResourceColumn("injected", lambda _, state: state.injected),
    ),
    "no faults are set",
    asked=_states,
    value=lambda device, state: {
        "device": device,
        "name": state.name,
        "fault": state.fault,
        "met": state.met,
        "injected": state.injected,
    },
    verbs=(Verb("set", set_fault), Verb("clear", clear)),
)
