"""What a run of a plan says of itself: what its steps took, and what was copied for its values."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types import Copy

CLIENT_STEP = -1
"""The client, where a step is named."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes. Times that were not measured are -1.

    ``device`` ran it, which is another one than the plan's where that failed. ``step`` is its number in the plan;
    ``started_ns`` and ``ended_ns`` are instants of CLOCK_BOOTTIME. ``copies`` say when its bytes were copied.
    """

    device: str
    duration_ns: int
    time_on_device_ns: int
    time_in_driver_ns: int
    copied_bytes: int
    copy_duration_ns: int
    step: int = 0
    started_ns: int = -1
    ended_ns: int = -1
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What became of one use of a value in a run: the bytes that were copied for it, and why.

    ``source_step`` wrote it and ``destination_step`` read it; CLIENT_STEP is the client, whose name is empty. An entry
    without a value is what a device copied in one step beyond the plan: more, or less where its ``copied_bytes`` are
    below 0. The sum over a ledger is what the devices report.
    """

    value: str
    source_step: int
    destination_step: int
    source: str
    destination: str
    strategy: str
    bytes: int
    copied_bytes: int
    reason: str
