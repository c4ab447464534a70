"""``nnhal doctor``: what may keep nnhal from working on this host, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from nnhal_tools.doctor.control_group import ControlGroup
from nnhal_tools.doctor.devices import check_devices
from nnhal_tools.doctor.finding import DoctorFinding, Status
from nnhal_tools.doctor.limits import check_limits
from nnhal_tools.doctor.memory import check_memory
from nnhal_tools.doctor.namespaces import check_namespaces
from nnhal_tools.doctor.sockets import check_directory, check_sockets
from nnhal_tools.doctor.versions import check_versions

_PROC, _SHARED, _GROUPS = Path("/proc"), Path("/dev/shm"), Path("/sys/fs/cgroup")


def examine(directory: Path) -> list[DoctorFinding]:
    """Run every check. ``directory`` is the directory of ``nnhal up``."""
    group = ControlGroup(_PROC, _GROUPS)
    sockets, listeners = check_sockets(directory)
    return [
        *check_directory(directory),
        *sockets,
        *check_namespaces(listeners, _PROC),
        *check_limits(_PROC, group),
        *check_memory(_PROC, _SHARED, group),
        *check_versions(),
        *check_devices(),
    ]


__all__ = ["DoctorFinding", "Status", "examine"]
