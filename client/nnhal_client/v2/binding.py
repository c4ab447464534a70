"""A model of a server bound to memory of this process: what is written there is sent, and answers are copied there."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from google.protobuf.message import Message

from nnhal.arrays import Array
from nnhal.contexts import Closing
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_client.reports import RunReport
from nnhal_client.tensors import fill, input_dimensions, require_known
from nnhal_client.v2.calls import INFER, R
from nnhal_client.v2.described import V2Description
from nnhal_client.v2.messages import V2Tensor, outputs_of

_IDENTIFIER_BITS = 62
"""Bits of the identifier of a sequence: enough that two bindings never draw the same one."""


class V2Caller(Protocol):
    """A session with a server."""

    def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        """Call a method and return the answer. ``timeout`` is in seconds."""


class BoundArrays:
    """Parts that ``V2Binding`` and ``AsyncV2Binding`` share: arrays with the model's types, requests, answers.

    The runs of a binding are one sequence, for models that carry values from run to run.
    """

    def __init__(
        self,
        model: V2Description,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, object],
    ) -> None:
        """Raises ValueError if dimensions of an input are missing or do not fit the model, and for any ``memories``: a
        server elsewhere cannot use them.
        """
        if memories:
            raise ValueError(f"got memory for {sorted(memories)}, expected none: the session sends bytes")
        given = model.chosen(dimensions)
        require_known(dimensions, given, model.outputs)
        self.measures = measure_timing
        self.socket_bytes = 0
        """Bytes of messages, both ways."""
        self._model = model
        self.dimensions = {
            **{tensor.name: input_dimensions(tensor, dimensions) for tensor in given},
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.outputs},
        }
        self.inputs: dict[str, Array] = {t.name: t.array(_blank(t, self.dimensions[t.name])) for t in given}
        self.outputs: dict[str, Array] = {t.name: _blank(t, (0,) if t.is_open else t.dimensions) for t in model.outputs}
        self._closed = False
        self._sequence = secrets.randbits(_IDENTIFIER_BITS) | 1
        self._starts = True

    def reset_state(self) -> None:
        """Have the next run begin with the initial values of the model's state, if it has one."""
        self._starts = True

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs. Raises ValueError if names, element types or dimensions differ."""
        fill(self.inputs, inputs)

    def put(self, name: str, value: Array) -> None:
        """Copy an array into an input. Raises ValueError if there is none, or if it has another type or dimensions."""
        found = [tensor for tensor in self._model.chosen(self.inputs) if tensor.name == name]
        if not found:
            raise ValueError(f"no input {name!r}; there are {sorted(self.inputs)}")
        view = self.inputs[name]
        fill({name: view}, {name: found[0].array(value).astype(view.dtype, copy=False)})

    def value(self, name: str) -> Array:
        """A copy of an output after a run. Raises ValueError if there is none."""
        if name not in self.outputs:
            raise ValueError(f"no output {name!r}; there are {sorted(self.outputs)}")
        return self.outputs[name].copy()

    def _request(self) -> wire.ModelInferRequest:
        if self._closed:
            raise DeadObjectError(f"the binding of model {self._model.name!r} has been closed")
        request = self._model.request(self.inputs)
        request.parameters["sequence_id"].int64_param = self._sequence
        if self._starts:
            request.parameters["sequence_start"].bool_param = True
        return request

    def _take(self, request: wire.ModelInferRequest, response: wire.ModelInferResponse, started: int) -> RunReport:
        """Copy the answer into the outputs. Raises TransportError if it has other outputs than the model."""
        answered = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        found = {name: np.asarray(value) for name, value in outputs_of(response).items()}
        if found.keys() != self.outputs.keys():
            raise TransportError(f"the answer has outputs {sorted(found)}, expected {sorted(self.outputs)}")
        self._starts = False
        for name, array in found.items():
            here = self.outputs[name]
            if here.shape == array.shape and here.dtype == array.dtype:
                here[...] = array
            else:
                self.outputs[name] = array.copy()
        size = request.ByteSize() + response.ByteSize()
        self.socket_bytes += size
        dimensions = {name: array.shape for name, array in found.items()}
        called, ended = (started, answered) if self.measures else (-1, -1)
        return RunReport(answered - started, size, (), dimensions, called_ns=called, answered_ns=ended)


class V2Binding(BoundArrays, Closing):
    """As ``Binding``, but a run sends the inputs and copies the answer to ``outputs``. Use as a context.

    One run at a time. A report has the time of the call and no steps: the server does not say what its devices took.
    """

    def __init__(
        self,
        caller: V2Caller,
        turns: threading.Semaphore,
        model: V2Description,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, object],
    ) -> None:
        """``turns`` limits the runs of the model that are under way."""
        super().__init__(model, measure_timing, dimensions, memories)
        self._caller = caller
        self._turns = turns

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. ``deadline_ns`` is an instant of CLOCK_BOOTTIME. Raises as every call of the session."""
        with self._turns:
            request, started = self._request(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            answer = self._caller.call(INFER, request, seconds_to(deadline_ns, started))
            return self._take(request, answer, started)

    def close(self) -> None:
        """Refuse further runs. The arrays stay valid."""
        self._closed = True


def seconds_to(deadline_ns: int, now_ns: int) -> float | None:
    """The time left until a deadline, None without one. Raises MISSED_DEADLINE_PERSISTENT if it has passed."""
    if deadline_ns == NO_DEADLINE:
        return None
    if deadline_ns <= now_ns:
        raise HalError(ErrorStatus.MISSED_DEADLINE_PERSISTENT, "the deadline was over before the run began")
    return (deadline_ns - now_ns) / 1e9


def _blank(tensor: V2Tensor, dimensions: Dimensions) -> Array:
    return np.full(dimensions, b"" if tensor.element_type.hasobject else 0, tensor.element_type)
