"""Traces as a timeline for chrome://tracing and Perfetto: requests in the framework, and their steps on devices."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nnhal.reports import StepReport
from nnhal_hosting.run_trace import add_steps
from nnhal_hosting.trace import Row, Trace
from nnhal_service.observability.request_trace import RequestTrace
from nnhal_service.runtime import RunReport

FRAMEWORK = "framework"


def chrome_trace(traces: Sequence[RequestTrace]) -> bytes:
    """The file. What runs at the same time is in rows of its own; a run is there once for all requests of its batch."""
    trace = Trace()
    lanes = _Lanes(trace)
    drawn: set[int] = set()
    for request in sorted(traces, key=lambda request: request.started_ns):
        row = _add_request(trace, lanes, request)
        if request.report is not None and id(request.report) not in drawn:
            drawn.add(id(request.report))
            _add_run(trace, lanes, row, request, request.report)
    return json.dumps(trace.as_dict()).encode()


class _Lanes:
    """Rows of a process, each for one thing at a time."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ends: dict[str, list[int]] = {}

    def row(self, process: str, started_ns: int, ended_ns: int) -> Row:
        """The first row that is free then."""
        ends = self._ends.setdefault(process, [])
        for number, end in enumerate(ends):
            if end <= started_ns:
                ends[number] = ended_ns
                return self._trace.row(process, f"lane {number}")
        ends.append(ended_ns)
        return self._trace.row(process, f"lane {len(ends) - 1}")


def _add_request(trace: Trace, lanes: _Lanes, request: RequestTrace) -> Row:
    row = lanes.row(FRAMEWORK, request.started_ns, request.ended_ns)
    details: dict[str, object] = {
        "number": request.number,
        "version": request.model_version,
        "request_id": request.request_id,
        "batch_size": request.batch_size,
    }
    if request.parent is not None:
        details["trace_id"] = request.parent.trace_id
    if request.error:
        details["error"] = request.error
    trace.span(row, f"request {request.model_name}", request.started_ns, request.ended_ns, details)
    for part in request.parts:
        trace.span(row, part.name, part.started_ns, part.ended_ns)
    for tensor in request.tensors:
        at = request.started_ns if tensor.activity.endswith("INPUT") else max(request.started_ns, request.ended_ns - 1)
        trace.instant(row, at, f"tensor {tensor.name}", tensor._asdict())
    return row


def _add_run(trace: Trace, lanes: _Lanes, row: Row, request: RequestTrace, report: RunReport) -> None:
    if request.timing is None:
        return
    begin, end = request.timing.run_started_ns, max(request.timing.run_started_ns, request.timing.run_ended_ns - 1)

    def lane(step: StepReport) -> Row:
        return lanes.row(step.device, step.started_ns, step.ended_ns)

    add_steps(trace, report.steps, report.ledger, lane, (row, begin), (row, end))
