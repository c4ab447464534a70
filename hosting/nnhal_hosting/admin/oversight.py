"""Overseers of a process: what starts it again, which admin keys its operators have, and how it is asked to exit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.admin_keys import read_admin_key
from nnhal_hosting.supervision import Supervision

_CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
_CONTAINER_GROUPS = ("docker", "containerd", "kubepods", "libpod", "lxc")
_INVOCATION = "INVOCATION_ID"
"""systemd sets it for all that a unit starts."""


def _no_exit() -> None:
    """Nothing runs that could be asked to exit."""


@dataclass(frozen=True, slots=True)
class Oversight:
    """Overseer of a process."""

    keys: tuple[str, ...] = ()
    """The admin keys that operators may show; without one, the process has no operators."""
    supervisor: wire.Supervisor.ValueType = wire.SUPERVISOR_UNSPECIFIED
    """What starts the process again if it ends."""
    exit: Callable[[], None] = _no_exit
    """Has the process shut down in order and exit with EXIT_STATUS. Does not wait for that."""
    give_up: Callable[[], None] = _no_exit
    """As ``exit``, but the process ends even if it cannot shut down."""


NO_OVERSIGHT = Oversight()
"""The oversight of a process which nobody oversees."""


def oversight_of(supervision: Supervision, key_file: Path | None) -> Oversight:
    """Return who oversees this process. Keys of its supervisor and of ``key_file`` count alike.

    Raises OSError, or ValueError if the file is not as expected (see ``read_admin_key``).
    """
    keys = [supervision.admin_key, read_admin_key(key_file) if key_file is not None else ""]
    supervisor = wire.SUPERVISOR_NNHAL if supervision.is_supervised else _foreign_supervisor()
    return Oversight(tuple(key for key in keys if key), supervisor, supervision.exit, supervision.give_up)


def _foreign_supervisor() -> wire.Supervisor.ValueType:
    parent = os.getppid()
    if _INVOCATION in os.environ and (parent == 1 or _name_of(parent) == "systemd"):
        return wire.SUPERVISOR_SYSTEMD
    # An engine starts a container again when its first process ends, which is this one or its parent, such as tini.
    if (os.getpid() == 1 or parent == 1) and _is_in_container():
        return wire.SUPERVISOR_CONTAINER
    return wire.SUPERVISOR_UNSPECIFIED


def _is_in_container() -> bool:
    if any(path.exists() for path in _CONTAINER_FILES):
        return True
    groups = _text(Path("/proc/self/cgroup"))
    return any(name in groups for name in _CONTAINER_GROUPS)


def _name_of(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/comm")).strip()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
