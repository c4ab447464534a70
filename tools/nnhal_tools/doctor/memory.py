"""Free memory, and whether memory can be passed between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from nnhal_tools.doctor.control_group import ControlGroup
from nnhal_tools.doctor.finding import DoctorFinding, fail, ok, warn

_MIB, _GIB = 1 << 20, 1 << 30
_LITTLE, _ENOUGH = 256 * _MIB, _GIB
_ENOUGH_SHARED = 64 * _MIB


def check_memory(proc: Path, shared: Path, group: ControlGroup) -> Iterator[DoctorFinding]:
    """Check free memory, the control group, /dev/shm and memfds."""
    yield check_available(proc)
    yield check_control_group(group)
    yield check_shared(shared)
    yield check_sealing()


def check_available(proc: Path) -> DoctorFinding:
    """Check MemAvailable of /proc/meminfo."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError as error:
        return warn("memory", f"{proc / 'meminfo'}: {error.strerror}", "mount /proc")
    known = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    if not known.get("MemAvailable", "").isdigit():
        return warn("memory", "the kernel does not say what is available", "look at 'free -m'")
    return _judge("memory", int(known["MemAvailable"]) * 1024, "available", "end what is not needed")


def check_control_group(group: ControlGroup) -> DoctorFinding:
    """Check the control group: memory.max less memory.current."""
    most, used = group.number("memory.max"), group.number("memory.current")
    if most is None:
        return ok("memory limit", "none by the control group")
    return _judge("memory limit", most - (used or 0), f"left of {_size(most)}", "raise the container's memory limit")


def check_shared(directory: Path) -> DoctorFinding:
    """Check /dev/shm, where clients of V2 put shared memory. nnhal's own pools do not need it."""
    try:
        found = os.statvfs(directory)
    except OSError as error:
        return fail("shared memory", f"{directory}: {error.strerror}", f"mount a tmpfs at {directory}")
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    message = f"{directory}: {_size(free)} free of {_size(size)}"
    if not os.access(directory, os.W_OK | os.X_OK):
        return fail("shared memory", f"{directory} cannot be written", f"chmod 1777 {directory}")
    if free < _ENOUGH_SHARED:
        return warn(
            "shared memory", message, "make it larger (docker: --shm-size 1g), or remove what is left over there"
        )
    return ok("shared memory", message)


def check_sealing() -> DoctorFinding:
    """Check memfd_create and seals against shrinking, which pools are made with."""
    try:
        descriptor = os.memfd_create("nnhal-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        return fail("pools", f"memfd_create: {error.strerror}", "allow memfd_create in the sandbox (seccomp)")
    try:
        os.ftruncate(descriptor, 4096)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        try:
            os.ftruncate(descriptor, 0)
        except PermissionError:
            return ok("pools", "memfd_create and seals work")
        return fail("pools", "a sealed memfd can be shortened", "use Linux 3.17 or newer")
    except OSError as error:
        return fail("pools", f"a memfd cannot be sealed: {error.strerror}", "allow fcntl F_ADD_SEALS in the sandbox")
    finally:
        os.close(descriptor)


def _judge(check: str, free: int, words: str, todo: str) -> DoctorFinding:
    message = f"{_size(free)} {words}"
    if free < _LITTLE:
        return fail(check, message, todo)
    return warn(check, message, todo) if free < _ENOUGH else ok(check, message)


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if abs(count) >= _GIB else f"{count / _MIB:.0f} MiB"
