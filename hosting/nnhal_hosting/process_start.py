"""Facts of the kernel about a process: when it was started, and the lines of its status.

A process gives itself a name of any bytes, which comes first in both files.
"""

from __future__ import annotations

import os
from pathlib import Path

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""The resolution of these instants."""
_STARTED, _STATE = 22, 3
"""Fields of /proc/PID/stat (proc(5)), counted from 1."""


def process_started_ns(pid: int) -> int | None:
    """Return when a process started, by CLOCK_BOOTTIME with the resolution of a tick; None if there is no such one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[_STARTED - _STATE]) * TICK_NS


def status_words(status: bytes, field: str) -> list[str]:
    """Return what a field of /proc/PID/status holds, such as ``Uid``; nothing if there is no such field.

    Only a line feed ends a line: a name may hold other characters that Python takes for the end of one.
    """
    begins = f"{field}:".encode()
    return next((line.decode().split()[1:] for line in status.split(b"\n") if line.startswith(begins)), [])
