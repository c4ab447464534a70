"""A run as rows of a trace: the client, the framework and each device, with arrows for the values between them.

Everything is on one clock, CLOCK_BOOTTIME. A device's rows have when it really worked; what it says that it took, by a
model where it has one, is among the details.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal.trace import Row, Trace
from nnhal_client.model import Placement
from nnhal_client.reports import LedgerEntry, RunReport, StepReport

CLIENT, FRAMEWORK = "client", "framework"
_Ends = tuple[tuple[Row, int], tuple[Row, int]]
"""Where arrows to something end, and where those from it begin."""


def add_run(trace: Trace, report: RunReport, placements: Sequence[Placement], name: str) -> None:
    """Add a measured run of a model.

    Raises ValueError for a run that was not measured.
    """
    if report.called_ns < 0:
        raise ValueError("the run was not measured: expected one of a binding that measures")
    client, framework = trace.row(CLIENT), trace.row(FRAMEWORK)
    trace.span(client, f"run {name}", report.called_ns, report.answered_ns)
    trace.span(
        framework,
        f"run {name}",
        report.started_ns,
        report.started_ns + report.duration_ns,
        {"socket_bytes": report.socket_bytes, "fell_back": report.fell_back},
    )
    ends: dict[int, _Ends] = {-1: ((client, report.answered_ns - 1), (client, report.called_ns))}
    for step in report.steps:
        if step.started_ns >= 0:
            row = trace.row(step.device)
            _add_step(trace, row, step, placements)
            ends.setdefault(step.step, ((row, step.started_ns), (row, max(step.started_ns, step.ended_ns - 1))))
    for entry in report.ledger:
        _add_entry(trace, entry, ends)


def _add_step(trace: Trace, row: Row, step: StepReport, placements: Sequence[Placement]) -> None:
    operations = [
        f"{placement.operation} {', '.join(placement.nodes)}".rstrip()
        for placement in placements
        if placement.step == step.step
    ]
    details = {
        "step": step.step,
        "device": step.device,
        "copied_bytes": step.copied_bytes,
        "time_on_device_ns": step.time_on_device_ns,
        "time_in_driver_ns": step.time_in_driver_ns,
        "operations": operations,
    }
    trace.span(row, f"step {step.step}", step.started_ns, step.ended_ns, details)
    for copy in step.copies:
        what = "copy out" if copy.is_output else "copy in"
        trace.span(row, what, copy.started_ns, copy.ended_ns, {"step": step.step, "bytes": copy.bytes})


def _add_entry(trace: Trace, entry: LedgerEntry, ends: Mapping[int, _Ends]) -> None:
    """An arrow for a use of a value; a mark for what was copied beyond the plan."""
    source, destination = ends.get(entry.source_step), ends.get(entry.destination_step)
    if source is None or destination is None:
        return
    details = {
        "strategy": entry.strategy,
        "bytes": entry.bytes,
        "copied_bytes": entry.copied_bytes,
        "source_step": entry.source_step,
        "destination_step": entry.destination_step,
        "reason": entry.reason,
    }
    if entry.value:
        trace.flow(entry.value, source[1], destination[0], details)
    else:
        trace.instant(*source[1], "unplanned copy", details)
