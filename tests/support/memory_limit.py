"""Limits on memory, so that what grows without bound fails early, and by itself."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KIBIBYTE = 1 << 10


@contextmanager
def memory_limit(spare: int, pid: int = 0) -> Iterator[None]:
    """Let a process, by default this one, have so many bytes of address space more than it has now."""
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    _, highest = before
    limit = _virtual_bytes(pid) + spare
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, highest))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)


def peak_bytes(pid: int) -> int:
    """The most that a process has had in RAM so far."""
    return _status(pid, "VmHWM")


def _virtual_bytes(pid: int) -> int:
    return _status(pid, "VmSize")


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * _KIBIBYTE
