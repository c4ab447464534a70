"""A request that was traced: what happened to it, and when."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import datatype_of
from nnhal_service.observability.request_scope import TraceParent
from nnhal_service.runtime import RunReport
from nnhal_service.serving import Finished, RequestTiming

_MOST_ELEMENTS = 1024
"""Of a tensor in a trace; what is behind them is left out."""


class Span(NamedTuple):
    """A part of a request. Instants are nanoseconds of CLOCK_BOOTTIME."""

    name: str
    started_ns: int
    ended_ns: int


class TensorTrace(NamedTuple):
    """A tensor of a request: ``activity``, datatype and the rest as Triton's traces have them."""

    activity: str
    name: str
    data: str
    shape: str
    datatype: str


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """A request. ``number`` counts the traces of this process, from 1.

    Instants are nanoseconds of CLOCK_BOOTTIME. ``timing`` and ``report`` are None, and ``error`` is not empty, where it
    failed.
    """

    number: int
    model_name: str
    model_version: str
    request_id: str
    batch_size: int
    parent: TraceParent | None
    started_ns: int
    ended_ns: int
    timing: RequestTiming | None
    report: RunReport | None
    error: str
    tensors: tuple[TensorTrace, ...]

    @property
    def parts(self) -> Iterator[Span]:
        """What the request consists of, one part after the other; nothing where it failed."""
        if self.timing is not None:
            _, queued, started, running, ended, handed_out = self.timing
            yield Span("queue", queued, started)
            yield Span("compute input", started, running)
            yield Span("compute infer", running, ended)
            yield Span("compute output", ended, handed_out)


def request_trace(
    number: int, finished: Finished, parent: TraceParent | None, tensors: tuple[TensorTrace, ...]
) -> RequestTrace:
    """The trace of a request that has just ended."""
    shift = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
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
    """The inputs and outputs of a request, to be read before its memory is used again."""
    return (
        *_traces("TENSOR_QUEUE_INPUT", finished.request.inputs),
        *_traces("TENSOR_BACKEND_OUTPUT", finished.outputs),
    )


def _traces(activity: str, tensors: Mapping[str, Array]) -> Iterator[TensorTrace]:
    for name, array in tensors.items():
        elements = [_text(element) for element in array.flat[:_MOST_ELEMENTS]]
        shape = ",".join(map(str, array.shape))
        yield TensorTrace(activity, name, ",".join(elements), shape, datatype_of(array).name)


def _text(element: object) -> str:
    if isinstance(element, bytes):
        return element.decode(errors="replace")
    return str(int(element)) if isinstance(element, np.bool_) else str(element)
