"""Events of a traced request; and the interface of what exports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from nnhal.clock import boottime_shift
from nnhal.inference.datatypes import datatype_of
from nnhal_service.observability.request_scope import TraceParent
from nnhal_service.runtime import RunReport
from nnhal_service.serving import Finished, RequestTiming
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.requests.client_memory import TensorData, to_array

_MOST_ELEMENTS = 1024
"""The elements of a tensor that a trace holds; further ones are left out."""


class TraceSpan(NamedTuple):
    """A part of a request. Instants are nanoseconds of CLOCK_BOOTTIME."""

    name: str
    started_ns: int
    ended_ns: int


class TensorTrace(NamedTuple):
    """A tensor of a request, with fields and values as in Triton's traces."""

    activity: str
    """``TENSOR_QUEUE_INPUT`` or ``TENSOR_BACKEND_OUTPUT``."""
    name: str
    """The name of the input or output."""
    data: str
    """The first elements, separated by commas."""
    shape: str
    """The lengths of the axes, separated by commas."""
    datatype: str
    """The protocol's name of the element type."""


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """A traced request. Instants are nanoseconds of CLOCK_BOOTTIME."""

    number: int
    """Counts the traces of this process, from 1."""
    model_name: str
    """The model's name."""
    model_version: str
    """The version that served the request."""
    request_id: str
    """The id that the client gave, empty if none."""
    batch_size: int
    """The items of the request."""
    parent: TraceParent | None
    """The client's span that it belongs to."""
    started_ns: int
    """When it arrived."""
    ended_ns: int
    """When its response was complete."""
    timing: RequestTiming | None
    """The instants between its parts; None if it failed."""
    report: RunReport | None
    """The report of its run; None if it failed."""
    error: str
    """Why it failed, empty if it succeeded."""
    tensors: tuple[TensorTrace, ...]
    """Its inputs and outputs, if these are traced."""

    @property
    def parts(self) -> Iterator[TraceSpan]:
        """The parts of the request in order; none if it failed."""
        if self.timing is not None:
            _, queued, started, running, ended, handed_out = self.timing
            yield TraceSpan("queue", queued, started)
            yield TraceSpan("compute input", started, running)
            yield TraceSpan("compute infer", running, ended)
            yield TraceSpan("compute output", ended, handed_out)


class SpanExporter(Protocol):
    """A destination of traces besides files."""

    def export(self, trace: RequestTrace) -> None:
        """Take a traced request. Returns quickly and does not raise."""
        ...

    def close(self) -> None:
        """Export what is kept."""
        ...


def request_trace(
    number: int, finished: Finished, parent: TraceParent | None, tensors: tuple[TensorTrace, ...]
) -> RequestTrace:
    shift = boottime_shift()
    timing = finished.timing
    return RequestTrace(
        number,
        finished.model_name,
        finished.model_version,
        finished.request.id,
        finished.batch_size,
        parent,
        finished.arrived_ns + shift,
        finished.ended_ns + shift,
        None if timing is None else RequestTiming(*(instant + shift for instant in timing)),
        finished.report,
        "" if finished.error is None else finished.error.message,
        tensors,
    )


def tensor_traces(finished: Finished) -> tuple[TensorTrace, ...]:
    """Trace the inputs and outputs of a request; must be called before its memory is used again."""
    return (
        *_traces("TENSOR_QUEUE_INPUT", finished.request.inputs),
        *_traces("TENSOR_BACKEND_OUTPUT", finished.outputs),
    )


def _traces(activity: str, tensors: Mapping[str, TensorData]) -> Iterator[TensorTrace]:
    for name, tensor in tensors.items():
        try:
            array = to_array(tensor)
        except ServingError:  # its client has shortened its memory meanwhile
            continue
        elements = [_text(element) for element in array.flat[:_MOST_ELEMENTS]]
        shape = ",".join(map(str, array.shape))
        yield TensorTrace(activity, name, ",".join(elements), shape, datatype_of(array).name)


def _text(element: object) -> str:
    if isinstance(element, bytes):
        return element.decode(errors="replace")
    return str(int(element)) if isinstance(element, np.bool_) else str(element)
