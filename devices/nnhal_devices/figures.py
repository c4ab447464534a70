"""Figures of a driver and its prepared models for whoever operates the device: plain values, no wire.

All of it is optional. Times and addresses are modelled ones of the emulated hardware, in the unit that a figure names,
but for the times of operations that a device has measured.
"""

from __future__ import annotations

from dataclasses import dataclass

RESERVED = "reserved"
"""The kind of a memory span that is set aside for something. Other spans within it say what holds values, and when."""


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """A number that describes a device at a moment."""

    name: str
    """In plain words."""

    value: float

    unit: str = ""
    """Empty for a count."""


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """A range of addresses that something occupies for some time."""

    name: str
    """What lies there, by the user's own name if it has one."""

    address: int
    """The first."""

    bytes: int

    begin: float
    """From when on, in the figure's unit of time."""

    end: float
    """Until when."""

    kind: str
    """What it is: feature map, rolling buffer, weights and so on."""


@dataclass(frozen=True, slots=True)
class MemoryFigure:
    """A memory over the time of one run."""

    name: str
    """Such as SRAM."""

    limit_bytes: int
    """Its size; 0 if it has no limit."""

    unit: str
    """The unit of time, such as cycles."""

    spans: tuple[MemorySpan, ...]


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Use of one unit of the hardware for some time."""

    lane: int
    """The index of the unit in the figure's lanes."""

    name: str
    """What it does, by the user's own name of the layer if it has one."""

    begin: float

    end: float

    kind: str
    """What kind of work it is: compute, copy, wait and so on."""


@dataclass(frozen=True, slots=True)
class TimeFigure:
    """Use of the units of the hardware over the time of one run."""

    name: str
    """What it shows."""

    unit: str
    """The unit of time, such as cycles."""

    lanes: tuple[str, ...]
    """The units, from the top down."""

    spans: tuple[TimeSpan, ...]


@dataclass(frozen=True, slots=True)
class WorkloadFigures:
    """Figures of a prepared model. Each part may be absent."""

    memories: tuple[MemoryFigure, ...] = ()
    """Memories over the time of one run."""

    times: tuple[TimeFigure, ...] = ()
    """What units do over the time of one run."""


NANOSECONDS = "ns"
BY_SCHEDULE = "by the schedule that the device has compiled"


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """The time of what a device runs as one."""

    name: str
    """What the device calls it: by the user's own name if it has one."""

    operations: tuple[int, ...]
    """The operations of main that it stands for; empty if it is none of the model's, such as a copy."""

    duration: float
    """The time that it takes in one run."""


@dataclass(frozen=True, slots=True)
class OperationTimes:
    """Time of the operations of a prepared model in one run."""

    times: tuple[TimedOperation, ...] = ()
    """In the order of a run; none if the device cannot tell."""

    unit: str = NANOSECONDS
    """Nanoseconds, or cycles."""

    is_modelled: bool = False
    """True if a model of the hardware says so, and not a clock."""

    note: str = ""
    """What was measured, in a sentence, or why there are no times."""
