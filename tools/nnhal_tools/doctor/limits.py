"""Limits of this process, which its child processes inherit."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from nnhal_tools.doctor.control_group import ControlGroup
from nnhal_tools.doctor.finding import DoctorFinding, fail, ok, warn

_FEW_FILES, _ENOUGH_FILES = 256, 4096
_FEW_LOCKED = 64 << 10
_ENOUGH_THREADS = 512


def check_limits(proc: Path, group: ControlGroup) -> Iterator[DoctorFinding]:
    """Check descriptors, locked memory and threads."""
    yield check_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield check_locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    yield check_threads(resource.getrlimit(resource.RLIMIT_NPROC)[0], proc, group)


def check_open_files(soft: int, hard: int) -> DoctorFinding:
    """Check RLIMIT_NOFILE. A session may own 256 descriptors, and each pool is a descriptor."""
    message = f"{_number(soft)} open files allowed, {_number(hard)} at most"
    if soft == resource.RLIM_INFINITY or soft >= _ENOUGH_FILES:
        return ok("open files", message)
    todo = f"ulimit -n {_ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)}"
    return fail("open files", message, todo) if soft < _FEW_FILES else warn("open files", message, todo)


def check_locked_memory(soft: int) -> DoctorFinding:
    """Check RLIMIT_MEMLOCK. nnhal locks no memory, but programs that use it may."""
    message = f"{_number(soft)} bytes may be locked"
    if soft != resource.RLIM_INFINITY and soft < _FEW_LOCKED:
        return warn("locked memory", message, "ulimit -l 65536, if a backend locks memory")
    return ok("locked memory", message)


def check_threads(soft: int, proc: Path, group: ControlGroup) -> DoctorFinding:
    """Check RLIMIT_NPROC, the kernel's threads-max, and the control group's pids.max less its present tasks."""
    bounds = {"RLIMIT_NPROC": None if soft == resource.RLIM_INFINITY else soft}
    bounds["kernel.threads-max"] = _read_number(proc / "sys/kernel/threads-max")
    most, used = group.number("pids.max"), group.number("pids.current")
    bounds["pids.max"] = None if most is None else most - (used or 0)
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    if not known:
        return ok("threads", "no limit")
    name = min(known, key=lambda key: known[key])
    message = f"{known[name]} more allowed by {name}"
    if known[name] < _ENOUGH_THREADS:
        return warn("threads", message, "ulimit -u, or the container's limit of processes (docker: --pids-limit)")
    return ok("threads", message)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
