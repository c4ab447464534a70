"""When processes were started."""

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
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[_STARTED - _STATE]) * TICK_NS
