"""What a run of a plan says of itself: what its steps took, and what was copied for its values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

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
    """How a value was passed for one use in a run: the bytes that were copied for it, and why.

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
    wire_up_bytes: int = 0
    """Those of the copied bytes that went over a network, to the host of the device that read it."""
    wire_down_bytes: int = 0
    """Those of the copied bytes that came over a network, from the host of the device that wrote it."""


class WireBytes(NamedTuple):
    """Bytes that went over networks to devices on other hosts, and that came from them."""

    up: int = 0
    down: int = 0


def wire_bytes_of(copies: Iterable[Copy]) -> WireBytes:
    """Return what copies have sent over networks."""
    sent = [copy for copy in copies if copy.is_wire]
    return WireBytes(sum(c.bytes for c in sent if not c.is_output), sum(c.bytes for c in sent if c.is_output))
