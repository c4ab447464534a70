"""The report of a run, as plain values. Instants are of CLOCK_BOOTTIME, -1 if they were not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nnhal.codec.reports import ledger_entry_from_wire, step_report_from_wire
from nnhal.reports import LedgerEntry, StepReport
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire


@dataclass(slots=True)  # not frozen, which would make the report dearer than the shortest runs
class RunReport:
    """Times and bytes of a run, in nanoseconds and bytes."""

    duration_ns: int
    """In the framework; of a direct run, and of a call with bytes, in the client."""
    socket_bytes: int
    """Between the framework and devices; of a direct run, and of a call with bytes, between the client and its peer."""
    steps: tuple[StepReport, ...]
    """Empty unless the binding measures."""
    dimensions: Mapping[str, Dimensions]
    """By output, those that a device has reported."""
    ledger: tuple[LedgerEntry, ...] = ()
    """One entry for each use of a value; empty unless the binding measures."""
    started_ns: int = -1
    """When the framework began."""
    fell_back: bool = False
    """True if another device replaced one that failed."""
    called_ns: int = field(default=-1, compare=False)
    """When the client called, if the binding measures."""
    answered_ns: int = field(default=-1, compare=False)
    """When the client had the answer, if the binding measures."""
    direct: bool = field(default=False, compare=False)
    """True if it was a direct run, over the run channel."""


def dimensions_from_wire(message: wire.RunReport) -> dict[str, Dimensions]:
    return output_dimensions(message.outputs)


def insufficient_outputs(message: wire.RunReport) -> frozenset[str]:
    """The names of outputs that did not fit their memory."""
    return frozenset(output.name for output in message.outputs if not output.sufficient)


def output_dimensions(outputs: Iterable[wire.OutputReport]) -> dict[str, Dimensions]:
    return {output.name: tuple(output.dimensions) for output in outputs}


def report_from_wire(message: wire.RunReport, called_ns: int = -1, answered_ns: int = -1) -> RunReport:
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
