"""The two formats of trace files: Triton's JSON, and a timeline for chrome://tracing and Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from nnhal.reports import StepReport
from nnhal_hosting.run_trace import add_steps
from nnhal_hosting.trace import Row, Trace
from nnhal_service.observability.traces.request_trace import RequestTrace
from nnhal_service.runtime import RunReport

FRAMEWORK = "framework"
_Object = dict[str, object]


def triton_trace(traces: Sequence[RequestTrace]) -> bytes:
    """Return a file as Triton writes it: a JSON array of objects, those of one request with the same ``id``.

    ``nnhal_steps``, beside the name of the model, are the steps on devices, with instants of the same clock.
    """
    return json.dumps([entry for trace in traces for entry in _objects(trace)]).encode()


def _objects(trace: RequestTrace) -> Iterator[_Object]:
    version = int(trace.model_version) if trace.model_version.isdecimal() else -1
    head: _Object = {"id": trace.number, "model_name": trace.model_name, "model_version": version}
    if trace.request_id:
        head["request_id"] = trace.request_id
    if trace.parent is not None:
        head["nnhal_trace_id"] = trace.parent.trace_id
    if trace.error:
        head["nnhal_error"] = trace.error
    if trace.report is not None:
        head["nnhal_steps"] = [asdict(step) for step in trace.report.steps]
    yield head
    for name, instant in _timestamps(trace):
        yield {"id": trace.number, "timestamps": [{"name": name, "ns": instant}]}
    for tensor in trace.tensors:
        yield {
            "id": trace.number,
            "activity": tensor.activity,
            "tensor": {
                "name": tensor.name,
                "data": tensor.data,
                "shape": tensor.shape,
                "dtype": tensor.datatype,
            },
        }


def _timestamps(trace: RequestTrace) -> Iterator[tuple[str, int]]:
    yield "REQUEST_START", trace.started_ns
    if trace.timing is not None:
        yield "QUEUE_START", trace.timing.queued_ns
        yield "COMPUTE_START", trace.timing.input_started_ns
        yield "COMPUTE_INPUT_END", trace.timing.run_started_ns
        yield "COMPUTE_OUTPUT_START", trace.timing.run_ended_ns
        yield "COMPUTE_END", trace.timing.output_ended_ns
        yield "INFER_RESPONSE_COMPLETE", trace.timing.output_ended_ns
    yield "REQUEST_END", trace.ended_ns


def chrome_trace(traces: Sequence[RequestTrace]) -> bytes:
    """Return a file with a timeline of requests in the framework and their steps on devices.

    What runs at the same time is in rows of its own; the requests of a batch share one run.
    """
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
    """The rows of a process, each for one thing at a time."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ends: dict[str, list[int]] = {}

    def row(self, process: str, started_ns: int, ended_ns: int) -> Row:
        """Return the first row that is free during these instants."""
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
