"""A run as rows of a timeline for Perfetto: the client, the framework and each device, with arrows between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal.reports import StepReport
from nnhal_client import OperationPlacement
from nnhal_client.reports import RunReport
from nnhal_hosting.run_trace import add_steps
from nnhal_hosting.trace import Trace

CLIENT, FRAMEWORK = "client", "framework"


def add_run(trace: Trace, report: RunReport, placements: Sequence[OperationPlacement], name: str) -> None:
    """Add a measured run of a model.

    Raises ValueError if the run was not measured.
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

    def operations(step: StepReport) -> dict[str, object]:
        here = (placement for placement in placements if placement.step == step.step)
        return {"operations": [f"{p.operation} {', '.join(p.nodes)}".rstrip() for p in here]}

    called, answered = (client, report.called_ns), (client, report.answered_ns - 1)
    add_steps(trace, report.steps, report.ledger, lambda step: trace.row(step.device), called, answered, operations)


def add_operations(trace: Trace, report: RunReport, times: Mapping[int, Sequence[tuple[str, float]]]) -> None:
    """Add operations inside the measured steps of a run, by step: by name, and nanoseconds on the device.

    They were not measured in this run: each has its share of the step, and is marked so.
    """
    for step in report.steps:
        spans = times.get(step.step, ())
        whole = sum(duration for _, duration in spans)
        if step.started_ns < 0 or not whole:
            continue
        length, begin, passed = step.ended_ns - step.started_ns, step.started_ns, 0.0
        for name, duration in spans:
            passed += duration
            end = step.started_ns + int(length * passed / whole)
            details = {"share_of_step": duration / whole, "measured_in_this_run": False}
            trace.span(trace.row(step.device), name, begin, end, details)
            begin = end
