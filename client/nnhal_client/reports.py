"""What a run says of itself, as plain values; instants are of CLOCK_BOOTTIME, -1 where nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnhal.codec import copies_from_wire
from nnhal.types import Copy
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes.

    ``step`` is its number in the plan. ``device`` ran it, which is another one than the plan's where that failed, from
    ``started_ns`` to ``ended_ns``. ``copies`` say when its bytes were copied.
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

    A step of -1 is the client, whose name is empty. An entry without a value is what a device copied in one step beyond
    the plan: more, or less where its ``copied_bytes`` are below 0. The sum over a ledger is what the devices report.
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


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took in the framework, nanoseconds and bytes.

    ``steps`` and ``ledger`` only where the binding measures; ``dimensions`` of outputs of which a device has said any.
    The framework began at ``started_ns``; the client called at ``called_ns`` and had the answer at ``answered_ns``,
    where the binding measures. ``fell_back`` says that a device stood in for one that failed.
    """

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...]
    dimensions: Mapping[str, Dimensions]
    ledger: tuple[LedgerEntry, ...] = ()
    started_ns: int = -1
    fell_back: bool = False
    called_ns: int = field(default=-1, compare=False)
    answered_ns: int = field(default=-1, compare=False)
    direct: bool = field(default=False, compare=False)


def dimensions_from_wire(message: wire.RunReport) -> dict[str, Dimensions]:
    """The dimensions of outputs, by name."""
    return {output.name: tuple(output.dimensions) for output in message.outputs}


def report_from_wire(message: wire.RunReport, called_ns: int = -1, answered_ns: int = -1) -> RunReport:
    """Decode a report."""
    return RunReport(
        message.duration_ns,
        message.socket_bytes,
        tuple(
            StepReport(
                s.device,
                s.duration_ns,
                s.time_on_device_ns,
                s.time_in_driver_ns,
                s.copied_bytes,
                s.copy_duration_ns,
                s.step,
                s.started_ns,
                s.ended_ns,
                copies_from_wire(s.copies),
            )
            for s in message.steps
        ),
        dimensions_from_wire(message),
        tuple(
            LedgerEntry(
                e.value,
                e.source_step,
                e.destination_step,
                e.source,
                e.destination,
                e.strategy,
                e.bytes,
                e.copied_bytes,
                e.reason,
            )
            for e in message.ledger
        ),
        message.started_ns,
        message.fell_back,
        called_ns,
        answered_ns,
    )
