"""Recorded runs of the framework as a trace: queue and run in the framework, steps and copies on devices."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.codec.reports import ledger_entry_from_wire, step_report_from_wire
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.run_trace import add_steps
from nnhal_hosting.trace import Trace

_FRAMEWORK = "framework"


def recording_trace(runs: Sequence[wire.FinishedRun]) -> Trace:
    """Return the trace. Runs that overlapped are in rows of their own; a run that was not recorded has no steps."""
    trace = Trace()
    ends: list[int] = []
    """When the last run of each row ended."""
    for run in sorted(runs, key=lambda run: run.arrived_ns):
        lane = next((number for number, end in enumerate(ends) if end <= run.arrived_ns), len(ends))
        ends[lane:] = [run.ended_ns, *ends[lane + 1 :]]
        _add(trace, run, f"runs {lane + 1}")
    return trace


def _add(trace: Trace, run: wire.FinishedRun, lane: str) -> None:
    row = trace.row(_FRAMEWORK, lane)
    details = {
        "number": run.number,
        "version": run.version,
        "client": run.client,
        "request_id": run.request_id,
        "batch_size": run.batch_size,
        "copied_bytes": run.copied_bytes,
        "fell_back": run.fell_back,
        "error": run.error,
    }
    trace.span(row, run.model, run.arrived_ns, run.ended_ns, details)
    if run.queue_ns:
        trace.span(row, "queue", run.arrived_ns, min(run.ended_ns, run.arrived_ns + run.queue_ns))
    add_steps(
        trace,
        [step_report_from_wire(step) for step in run.report.steps],
        [ledger_entry_from_wire(entry) for entry in run.report.ledger],
        lambda step: trace.row(step.device, lane),
        (row, run.arrived_ns),
        (row, max(run.arrived_ns, run.ended_ns - 1)),
    )
