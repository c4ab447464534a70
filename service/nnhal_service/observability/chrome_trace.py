"""Traces as a timeline for chrome://tracing and Perfetto: requests in the framework, and their steps on devices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nnhal.trace import Row, Trace
from nnhal_service.observability.request_trace import RequestTrace
from nnhal_service.runtime import LedgerEntry, RunReport, StepReport

FRAMEWORK = "framework"
_Ends = tuple[tuple[Row, int], tuple[Row, int]]
"""Where arrows to something end, and where those from it begin."""


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
    ends: dict[int | None, _Ends] = {None: ((row, end), (row, begin))}
    for step in report.steps:
        if step.started_ns >= 0:
            lane = lanes.row(step.device, step.started_ns, step.ended_ns)
            _add_step(trace, lane, step)
            ends.setdefault(step.step, ((lane, step.started_ns), (lane, max(step.started_ns, step.ended_ns - 1))))
    for entry in report.ledger:
        _add_entry(trace, entry, ends)


def _add_step(trace: Trace, row: Row, step: StepReport) -> None:
    details = {
        "step": step.step,
        "device": step.device,
        "copied_bytes": step.copied_bytes,
        "time_on_device_ns": step.time_on_device_ns,
        "time_in_driver_ns": step.time_in_driver_ns,
    }
    trace.span(row, f"step {step.step}", step.started_ns, step.ended_ns, details)
    for copy in step.copies:
        what = "copy out" if copy.is_output else "copy in"
        trace.span(row, what, copy.started_ns, copy.ended_ns, {"step": step.step, "bytes": copy.bytes})


def _add_entry(trace: Trace, entry: LedgerEntry, ends: Mapping[int | None, _Ends]) -> None:
    """An arrow for a use of a value; a mark for what was copied beyond the plan."""
    source, destination = ends.get(entry.source_step), ends.get(entry.destination_step)
    if source is None or destination is None:
        return
    details = {
        "strategy": entry.strategy,
        "bytes": entry.bytes,
        "copied_bytes": entry.copied_bytes,
        "reason": entry.reason,
    }
    if entry.value:
        trace.flow(entry.value, source[1], destination[0], details)
    else:
        trace.instant(*source[1], "unplanned copy", details)
