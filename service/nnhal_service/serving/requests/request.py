"""Requests and responses of inference, whatever the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from nnhal.types import NO_DEADLINE
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.requests.client_memory import Place, TensorData, bytes_of

Parameter = bool | int | float | str


def no_limit(size: int) -> None:
    """Let a request have all the memory that it needs."""


class CheckedForm:
    """What all requests with the same head have in common, as far as the model has checked it: a request that came
    before is not checked again.
    """

    __slots__ = ("inputs", "signature", "size")

    def __init__(self) -> None:
        self.signature: object = None
        """By which they were checked; None if none was, or each has to be checked."""
        self.size = 0
        """The batch size."""
        self.inputs: Sequence[str] = ()
        """The names of the inputs in the model's order."""

    def keep(self, signature: object, given: Mapping[str, TensorData], size: int, arrays: Sequence[TensorData]) -> None:
        """Keep what a check has found, if it depends on the head alone: each input lies in memory as it was given, and
        is neither strings nor in memory of the client.
        """
        names = [name for array in arrays for name, tensor in given.items() if tensor is array]
        is_plain = all(isinstance(array, np.ndarray) and not array.dtype.hasobject for array in arrays)
        if is_plain and len(names) == len(arrays) == len(given):
            self.signature, self.size, self.inputs = signature, size, names


@dataclass(slots=True)  # not frozen: to make one of that kind takes three times as long
class InferenceRequest:
    """One inference of one model. It does not change."""

    inputs: Mapping[str, TensorData]
    """Tensors of the model's own element types and shapes, with the batch axis if the model has one.

    Arrays of BYTES have dtype object and hold bytes. The arrays may be views of memory that does not change until the
    response has been released.
    """
    outputs: Sequence[str] = ()
    """The requested outputs; empty for all."""
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    priority: int = 0
    """1 is the highest, 0 the model's default."""
    timeout_ns: int = 0
    """The time that it may wait in the queue, and the deadline of its run too; 0 for the model's default."""
    deadline_ns: int = NO_DEADLINE
    """The instant of CLOCK_BOOTTIME by which it must have ended."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    arrived_ns: int = 0
    """The instant of CLOCK_MONOTONIC at which the V2 server received it; 0 for the start of ``ServedModel.infer``."""
    output_places: Mapping[str, Place] = field(default_factory=dict)
    """Where the client wants outputs. Those that devices have left there are PlacedTensors in the response."""
    copying: Callable[[int], None] = no_limit
    """Called, in any thread, before so many more bytes are copied for it. Raises RESOURCE_EXHAUSTED if they may not."""

    form: CheckedForm | None = None
    """That of all requests with the same head; None for a request that is not expected again."""

    @property
    def is_bounded(self) -> bool:
        """True if its run has a deadline. It is not joined with others whose run may take as long as it likes."""
        return self.timeout_ns > 0 or self.deadline_ns != NO_DEADLINE


class ShownOutputs(dict[str, TensorData]):
    """Outputs that lie in the same memory in each run of an instance. V2 servers keep their answers with them."""

    __slots__ = ("answers", "handed_bytes")

    def __init__(self, outputs: Mapping[str, TensorData]) -> None:
        super().__init__(outputs)
        self.answers: dict[object, Any] = {}
        """By the form of the answer. Only the loop uses it."""
        self.handed_bytes = bytes_of(outputs.values())
        """The bytes that each answer copies."""

    def keep(self, form: object, answer: object) -> None:
        """Keep an answer."""
        if len(self.answers) >= MOST_KEPT_ANSWERS:
            self.answers.clear()
        self.answers[form] = answer


MOST_KEPT_ANSWERS = 16
"""The forms of answers, and the choices of outputs, that are kept for an instance."""


class RequestTiming(NamedTuple):
    """Instants of a request in their order, in nanoseconds of CLOCK_MONOTONIC."""

    arrived_ns: int
    queued_ns: int
    """When it entered the queue, or ran at once."""
    input_started_ns: int
    """When copying its inputs began."""
    run_started_ns: int
    run_ended_ns: int
    output_ended_ns: int
    """When its outputs were ready."""


@dataclass(slots=True)
class InferenceResponse:
    """The outputs of a request. Use it as a context, which releases it."""

    model_name: str
    model_version: str
    outputs: Mapping[str, TensorData]
    """Views of memory that is used again once the response has been released."""
    parameters: Mapping[str, Parameter]
    """Which devices ran the request and how many bytes were copied: ``nnhal_devices``, ``nnhal_bytes_copied``; and if a
    device is on another host, how many of these went over the network: ``nnhal_bytes_on_wire``."""
    timing: RequestTiming
    release: Callable[[], None]

    def __enter__(self) -> InferenceResponse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
