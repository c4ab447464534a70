"""Traces as Triton writes them: a JSON array of objects, those of a request by ``id``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from nnhal_service.observability.request_trace import RequestTrace

_Object = dict[str, object]


def triton_trace(traces: Sequence[RequestTrace]) -> bytes:
    """The file. ``nnhal_steps`` beside the name of the model are the steps on devices, instants on the same clock."""
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
