"""Devices: drivers, how the framework uses them, what they execute, and adding more of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_pages.operating.plain import plain, plain_value
from nnhal_pages.operating.resources import processes
from nnhal_pages.operating.resources.processes import ProcessName, optional
from nnhal_pages.operating.snapshot import Detail, ObservedProcess
from nnhal_pages.operating.table import (
    Done,
    OperatedSystem,
    Resource,
    ResourceColumn,
    Verb,
    VerbChange,
    VerbOption,
    undoing,
)
from nnhal_pages.units import size

_NAMES_FILE = re.compile(r".*(file|path|dir|directory|ca|certificate|key|memory)")
"""Names of options whose values are files of this host, such as ``token_file``, ``tls_ca`` and ethos_u's ``memory``."""
_SHIPPED = {("profile", "cn106")}
"""Options whose values are names of files that come with nnhal, before any file of this host is looked for."""


def _value(device: ObservedProcess, standing: framework_admin_pb2.DeviceStanding | None) -> dict[str, Any]:
    return {
        "name": device.name,
        "problem": device.silence or device.lack or None,
        "standing": optional(standing),
        "identity": plain_value(device.identity),
        "description": plain_value(device.description),
        "device": device.device and plain(device.device) | {"limits": [plain(limit) for limit in device.limits]},
    }


def _use(device: ObservedProcess, standing: framework_admin_pb2.DeviceStanding | None) -> str:
    use = ""
    if standing is not None:
        use = "draining" if standing.draining else "in use" if standing.available else f"not used: {standing.reason}"
    return "; ".join(filter(None, (use, device.silence, device.lack)))


def _buffers(state: admin_pb2.GetDeviceResponse) -> str:
    limit = f" of {size(state.buffer_limit_bytes)}" if state.buffer_limit_bytes else ""
    return size(state.buffer_bytes) + limit


def add(
    at: OperatedSystem,
    device: Annotated[str, VerbOption("NAME, or NAME=DIR; its sockets are in DIRECTORY/NAME without DIR.")],
) -> Done:
    """Have the framework know a device that something else has started."""
    name, _, given = device.partition("=")
    snapshot = at.look()
    if snapshot.supervisor is not None:  # a supervisor of nnhal tells the framework of it itself
        beside = snapshot.host.directory if snapshot.host is not None else ""
        place = Path(given).absolute() if given else Path(beside).parent / name
        at.contacts.supervisor().start_device(name=name, endpoint=str(place))
    else:
        place = Path(given).absolute() if given else Path(snapshot.known(name).directory)
        at.contacts.framework().add_device(name, str(place))
    return Done(f"the framework knows {name}", {"name": name, "known": True}, change=added(name))


def remove(at: OperatedSystem, name: ProcessName) -> Done:
    """Have the framework plan without a device that was added, and forget it."""
    if at.look().supervisor is not None:
        at.contacts.supervisor().remove_device(name)
    else:
        at.contacts.framework().remove_device(name)
    return Done(f"the framework has forgotten {name}", {"name": name, "known": False}, change=VerbChange(name))


def start_one_more(
    at: OperatedSystem,
    driver: Annotated[str, VerbOption("The driver of the new device.", names="drivers")],
    name: Annotated[str, VerbOption("Its name; the driver's by default.")] = "",
    workers: Annotated[int, VerbOption("Executions that it runs at a time.", 1, 256)] = 1,
    threads: Annotated[int, VerbOption("Threads of one execution.", 1, 256)] = 1,
    options: Annotated[
        list[str] | None, VerbOption("Options of its driver, each NAME=VALUE; none that names a file.")
    ] = None,
) -> Done:
    """Start one more device, which the framework uses for models that are planned from then on."""
    given = dict(_option(text) for text in options or ())
    process = at.contacts.supervisor().start_device(driver.strip(), name.strip(), workers, threads, given)
    return Done(f"A device was started: {process.name} serves.", plain(process), change=added(process.name))


def added(name: str) -> VerbChange:
    """Return that a device was added."""
    return VerbChange(name, undo=undoing("devices", name, "remove"))


def _option(text: str) -> tuple[str, str]:
    """Read an option. Raises ValueError, also if it names a file: only those on this host may have one read."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ValueError(f"option {text.strip()!r}, expected NAME=VALUE")
    names_file = _NAMES_FILE.fullmatch(name) and (name, value) not in _SHIPPED
    if names_file or "/" in value.replace("tcp://", "", 1):
        raise ValueError(
            f"option {name!r} names a file, expected none here: a topology file or 'nnhal ctl start' takes it"
        )
    return name, value


ADD, REMOVE = Verb("add", add, names_one=False), Verb("remove", remove)
DEVICES = Resource(
    "devices",
    "Devices: drivers, how the framework uses them, queues, executions, staged bytes, models.",
    (
        ResourceColumn("device", lambda device, _: device.name),
        ResourceColumn("driver", lambda device, _: device.identity and device.identity.version),
        ResourceColumn("type", lambda device, _: device.identity and device.identity.type.name),
        ResourceColumn("use", _use),
        ResourceColumn("runs", lambda device, _: device.device and f"{device.device.running}/{device.device.workers}"),
        ResourceColumn("waits", lambda device, _: device.device and device.device.waiting),
        ResourceColumn("executions", lambda device, _: device.device and device.device.executions_ended),
        ResourceColumn("staged", lambda device, _: device.device and device.device.staged_bytes, "B"),
        ResourceColumn("buffers", lambda device, _: device.device and _buffers(device.device)),
        ResourceColumn("models", lambda _, standing: standing and list(standing.models)),
    ),
    "no devices",
    lambda snapshot: ((device, snapshot.standing(device.name)) for device in snapshot.devices),
    value=_value,
    needs=Detail.DEVICES,
    verbs=(*processes.VERBS, REMOVE, Verb("add", start_one_more, names_one=False)),
)
