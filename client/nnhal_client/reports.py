"""What a run says of itself, as plain values; instants are of CLOCK_BOOTTIME, -1 where nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnhal.codec.reports import ledger_entry_from_wire, step_report_from_wire
from nnhal.reports import LedgerEntry, StepReport
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire


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
        tuple(step_report_from_wire(step) for step in message.steps),
        dimensions_from_wire(message),
        tuple(ledger_entry_from_wire(entry) for entry in message.ledger),
        message.started_ns,
        message.fell_back,
        called_ns,
        answered_ns,
    )
