"""Report of a run of a plan: what its steps took, and what was copied for its values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nnhal.types import Copy

CLIENT_STEP = -1
"""The client, where a step is named."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Times and bytes of one step of a run, nanoseconds and bytes. Times that were not measured are -1.

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
    """Way of a value for one use in a run: the bytes that were copied for it, and why.

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

    @property
    def is_between(self) -> bool:
        """Return whether the value passed from step to step. What was not planned is due to memory of the client."""
        return bool(self.value) and CLIENT_STEP not in (self.source_step, self.destination_step)


class CopiedBytes(NamedTuple):
    """Bytes that were copied, or that are by plan. ``between`` and ``clients`` are all of them."""

    between: int = 0
    """For values that pass from a step to another one."""
    clients: int = 0
    """For inputs and outputs of the model: tensors of requests and responses that the framework copies too."""
    staged: int = 0
    """Those of all of them that hosts of devices copy, since a device cannot use the memory in place."""

    @property
    def total(self) -> int:
        return self.between + self.clients

    def times(self, runs: int) -> CopiedBytes:
        """Return what so many equal runs copy."""
        return CopiedBytes(self.between * runs, self.clients * runs, self.staged * runs)


NOTHING_COPIED = CopiedBytes()


class ValueUse(Protocol):
    """One use of a value: of a ledger, or of a plan."""

    @property
    def is_between(self) -> bool:
        """Return whether the value passes from step to step."""

    @property
    def copied_bytes(self) -> int:
        """Return what hosts of devices copy for it."""


def copied_by(uses: Iterable[ValueUse]) -> CopiedBytes:
    between = clients = 0
    for use in uses:
        if use.is_between:
            between += use.copied_bytes
        else:
            clients += use.copied_bytes
    return CopiedBytes(between, clients, between + clients)


class WireBytes(NamedTuple):
    """Bytes that went over networks to devices on other hosts, and that came from them."""

    up: int = 0
    down: int = 0


def wire_bytes_of(copies: Iterable[Copy]) -> WireBytes:
    """Return what copies have sent over networks."""
    sent = [copy for copy in copies if copy.is_wire]
    return WireBytes(sum(c.bytes for c in sent if not c.is_output), sum(c.bytes for c in sent if c.is_output))
