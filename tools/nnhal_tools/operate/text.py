"""How tables for operators write times, bytes and states."""

from __future__ import annotations

import time

from nnhal.v1 import supervisor_pb2

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def in_bytes(count: float) -> str:
    """A number of bytes, such as "1.5 MiB"."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"


def since(at_ns: int) -> str:
    """How long ago an instant of CLOCK_BOOTTIME was; empty for 0."""
    return lasting(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - at_ns) if at_ns else ""


def lasting(nanoseconds: float) -> str:
    """A length of time, such as "3.2 s" or "2 h 5 min"."""
    seconds = max(0.0, nanoseconds / 1e9)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{hours} h {minutes % 60} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def request_time(nanoseconds: float | None) -> str:
    """A duration of a request, in µs if it is short; "-" for none."""
    if nanoseconds is None:
        return "-"
    return f"{nanoseconds / 1e3:.1f} µs" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2f} ms"


def state_name(state: supervisor_pb2.SupervisedProcess.State.ValueType) -> str:
    """A state in one word, such as "running"."""
    return supervisor_pb2.SupervisedProcess.State.Name(state).removeprefix("STATE_").lower()
