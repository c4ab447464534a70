"""Times and places in words, the same in tables and on pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnhal_client.explanation import Explanation, Measured

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def duration(nanoseconds: float) -> str:
    """Milliseconds or microseconds; "-" for a negative number, which stands for an unknown time."""
    if nanoseconds < 0:
        return "-"
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.1f} µs"


def lasting(nanoseconds: float) -> str:
    """A length of time that people wait for, such as "3.2 s" or "2 h 5 min"."""
    seconds = max(0.0, nanoseconds / 1e9)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{hours} h {minutes % 60} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def modelled(nanoseconds: float) -> str:
    """Return a modelled time; a negative number stands for an unknown one."""
    return duration(nanoseconds) if nanoseconds >= 0 else "unknown"


def size(count: float) -> str:
    """Return bytes in the largest binary unit in which they are 1 or more, in three digits or all of a whole number."""
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_BINARY[unit]}" if unit == 0 or abs(value) >= 100 else f"{value:.3g} {_BINARY[unit]}"


def number(value: float) -> str:
    """A number with three digits or all of a whole one, thousands apart."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def times(ratio: float) -> str:
    """Return how many times as much, in three digits."""
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def beside_model(measured_ns: float, modelled_ns: float) -> str:
    """Return a measured time beside the modelled one, and how many times as long it is."""
    if measured_ns <= 0 or modelled_ns <= 0:
        return duration(measured_ns)
    return f"{duration(measured_ns)}, {times(measured_ns / modelled_ns)} the model"


def measured_words(explanation: Explanation) -> str:
    """Return the measured time of a run and the model's error; empty if it was not measured."""
    measured = explanation.measured
    return f"measured: {beside_model(measured.duration_ns, explanation.modelled_ns)}" if measured else ""


def median_of(measured: Measured) -> str:
    """Return what measured times are."""
    return f"median of {measured.runs} {'run' if measured.runs == 1 else 'runs'}"


def place(name: str, step: int) -> str:
    """A device with the number of its step, or the client, whose step is -1."""
    return name or "client" if step < 0 else f"{name} ({step})"
