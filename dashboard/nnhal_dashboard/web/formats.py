"""Numbers, sizes, durations and instants as pages write them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from nnhal.types import TransferCosts
from nnhal.v1 import admin_pb2, types_pb2
from nnhal_pages.copies import Copied, copied_figures
from nnhal_pages.text import clipped, shortened, visible
from nnhal_pages.units import number, size, times
from nnhal_pages.wires import link_words, sent_words

UNKNOWN = "–"  # noqa: RUF001 - an en dash on purpose
"""In place of a value that is not known."""
_PHASES = {
    admin_pb2.ExecutionState.PHASE_WAITING: "waiting",
    admin_pb2.ExecutionState.PHASE_FENCED: "waiting for fences",
    admin_pb2.ExecutionState.PHASE_RUNNING: "running",
}


def duration(nanoseconds: float | None) -> str:
    """A duration with a unit, such as ``84 µs``; a dash if it is not known."""
    if nanoseconds is None or nanoseconds < 0:
        return UNKNOWN
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        if nanoseconds < limit:
            return f"{nanoseconds / limit * 1e3:.3g} {unit}"
    seconds = nanoseconds / 1e9
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds // 86400:.0f} d {seconds % 86400 // 3600:.0f} h"


def age(instant_ns: int) -> str:
    """Return the age of an instant of CLOCK_BOOTTIME, in whole seconds so that a page changes only when it should."""
    if instant_ns <= 0:
        return UNKNOWN
    seconds = max(0, (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - instant_ns) // 10**9)
    return duration(seconds * 10**9) if seconds >= 1 else "now"


def about(instant_ns: int) -> str:
    """Return how long an instant of CLOCK_BOOTTIME is past, in one unit: for long tables, which then seldom change."""
    seconds = max(0, (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - instant_ns) // 10**9)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length and instant_ns > 0:
            return f"{seconds // length} {unit}"
    return age(instant_ns)


def until(instant_ns: int) -> str:
    """Return how far off an instant of CLOCK_BOOTTIME is; a dash for none."""
    if instant_ns < 0:
        return UNKNOWN
    left = instant_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return f"in {duration(left)}" if left >= 0 else f"{duration(-left)} ago"


def copies(copied: Copied, runs: int = 1) -> tuple[str, str, str]:
    """The three figures of copied bytes, in the order of their names; the mean, if they are of several runs."""
    return copied_figures(copied, size, runs)


def clock(epoch_ns: float) -> str:
    """The time of day of an instant in nanoseconds since the epoch, in UTC."""
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).strftime("%H:%M:%S")


def instant(epoch_ns: float, with_date: bool = False) -> Markup:
    """An instant in nanoseconds since the epoch, in UTC; a script writes the time of the browser's zone."""
    at = datetime.fromtimestamp(epoch_ns / 1e9, UTC)
    words = at.strftime("%Y-%m-%d %H:%M:%S UTC" if with_date else "%H:%M:%S UTC")
    return Markup(f"<time datetime='{at:%Y-%m-%dT%H:%M:%SZ}'{' data-date' if with_date else ''}>{words}</time>")


def rate(value: float) -> str:
    """Return how often a second."""
    return f"{number(round(value, 1))}/s"


def percent(share: float) -> str:
    """A share of 1 in percent."""
    return f"{100 * share:.0f} %"


def measured(value: float, unit: str) -> str:
    """A number with its unit; bytes with a larger unit if that is shorter."""
    if unit in ("B", "bytes"):
        return size(value)
    return f"{number(value)} {unit}".rstrip()


def phase(code: int) -> str:
    """Return where an execution is."""
    return _PHASES.get(admin_pb2.ExecutionState.Phase.ValueType(code), UNKNOWN)


def priority(code: int) -> str:
    """A priority by the HAL's name, in lower case; its number if it has none."""
    known = {int(value): name for name, value in types_pb2.Priority.items()}
    return known[code].removeprefix("PRIORITY_").lower() if code in known else str(code)


def dimensions(extents: Sequence[int]) -> str:
    """Dimensions such as ``[1, 28, 28]``; a question mark for an unknown extent."""
    return f"[{', '.join(str(extent) if extent else '?' for extent in extents)}]"


def link(costs: TransferCosts) -> str:
    """Return how fast the network to a device is."""
    return link_words(costs.round_trip_ns, costs.copy_ns_per_byte)


def capital(text: str) -> str:
    """A text that begins with a capital letter; the rest stays."""
    return text[:1].upper() + text[1:]


def path(text: object) -> str:
    """A name as one part of a path."""
    return quote(str(text), safe="")


FILTERS: Mapping[str, Callable[..., Any]] = {
    "size": size,
    "duration": duration,
    "link": link,
    "sent": sent_words,
    "age": age,
    "about": about,
    "times": times,
    "until": until,
    "copies": copies,
    "clock": clock,
    "instant": instant,
    "number": number,
    "rate": rate,
    "percent": percent,
    "path": path,
    "measured": measured,
    "phase": phase,
    "priority": priority,
    "dimensions": dimensions,
    "capital": capital,
    "clipped": clipped,
    "shortened": shortened,
    "visible": visible,
}
"""By the names that templates use."""
