"""An execution for a client on another host: its inputs and outputs lie in memory of this host, and are sent."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec import deadline_after, nanoseconds
from nnhal.codec.bounds import MAX_ARGUMENTS, at_most
from nnhal.errors import general_failure, invalid_argument
from nnhal.types import (
    DataLocation,
    ExecutionConfig,
    ExecutionResult,
    Request,
    RequestArgument,
    RequestMemoryPool,
)
from nnhal.types.memory import NOWHERE
from nnhal.v1 import request_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.host.wire.objects import FarMemory, FarObjects, FarPreparedModel

_ALIGNMENT = 64


class _Layout:
    """Places of the arguments of an execution: those that are sent in one memory, the others in buffers."""

    def __init__(self, objects: FarObjects) -> None:
        self._objects = objects
        self.size = 0
        self.pools: list[FarMemory] = []

    def place(self, arguments: Sequence[wire.BoundArgument], what: str) -> list[RequestArgument]:
        """Place all inputs or all outputs. Raises INVALID_ARGUMENT."""
        known = at_most(MAX_ARGUMENTS, arguments, f"{what}s")
        return [self._place(argument, f"{what} {index}") for index, argument in enumerate(known)]

    def _place(self, argument: wire.BoundArgument, what: str) -> RequestArgument:
        if argument.has_no_value:
            return RequestArgument(NOWHERE, (), True)
        dimensions = tuple(argument.dimensions)
        if argument.length <= 0:
            invalid_argument(f"{what} has {argument.length} bytes, expected more than 0")
        if not argument.buffer:
            offset, self.size = self.size, self.size + _aligned(argument.length)
            return RequestArgument(DataLocation(0, offset, argument.length), dimensions)
        memory = self._objects.get(argument.buffer, FarMemory, "buffer")
        if argument.length > memory.held_bytes:
            invalid_argument(f"{what} has {argument.length} bytes, its buffer {memory.held_bytes}")
        self.pools.append(memory)
        return RequestArgument(DataLocation(len(self.pools), 0, argument.length), dimensions)


class SentOutput(NamedTuple):
    """An output that is sent after each run."""

    number: int
    place: Bytes
    element_bytes: int
    """0 if it is sent as a whole."""

    def written(self, result: ExecutionResult) -> Bytes:
        """Return what a run has written of it."""
        if not result.output_shapes or not self.element_bytes:
            return self.place
        return self.place[: self.element_bytes * prod(result.output_shapes[self.number].dimensions)]


class FarExecution:
    """A reusable execution of the device, and the memory of what is sent. It runs once at a time."""

    def __init__(self, request: wire.BindExecutionRequest, prepared: FarPreparedModel, objects: FarObjects) -> None:
        """Bind a prepared model to memory. Raises NnhalError."""
        self._prepared = prepared
        self._busy = threading.Lock()
        layout = _Layout(objects)
        inputs, outputs = layout.place(request.inputs, "input"), layout.place(request.outputs, "output")
        self._memory = memory = FarMemory(max(layout.size, _ALIGNMENT), "nnhal-wire-arguments")
        pools: tuple[RequestMemoryPool, ...] = (memory.pool, *(each.pool for each in layout.pools))
        bound = Request(tuple(inputs), tuple(outputs), pools)
        config = ExecutionConfig(True, nanoseconds(request, "loop_timeout_ns"))
        self._remote = prepared.remote.create_reusable_execution(bound, config)
        self.inputs = [place for argument in inputs if (place := _sent(argument, memory)) is not None]
        """The places of the inputs that are sent."""
        self._outputs = [
            SentOutput(index, place, request.outputs[index].element_bytes)
            for index, argument in enumerate(outputs)
            if (place := _sent(argument, memory)) is not None
        ]

    @property
    def input_bytes(self) -> int:
        """The bytes of the inputs that are sent."""
        return sum(map(len, self.inputs))

    @property
    def handle(self) -> int:
        """The handle of the device's execution."""
        return self._remote.handle

    @property
    def held_bytes(self) -> int:
        """The bytes of its memory."""
        return self._memory.held_bytes

    def hold(self) -> None:
        """Reserve it for a run. Raises GENERAL_FAILURE if it runs already."""
        if not self._busy.acquire(False):
            general_failure("the execution runs already; one at a time is allowed")

    def let_go(self) -> None:
        """Undo ``hold``."""
        self._busy.release()

    def run(self, remaining_ns: int, received_ns: int) -> tuple[wire.RunOutcome, list[Bytes]]:
        """Run it, while it is held and its inputs are there. Return the outcome, and the outputs to send.

        ``remaining_ns`` are counted from ``received_ns`` on. Raises NnhalError.
        """
        began = now_ns()
        deadline = deadline_after(received_ns, remaining_ns)
        burst = self._prepared.borrow_burst()
        try:
            outcome = burst.run(self._remote, deadline)
        finally:
            self._prepared.give_back(burst)
        result = outcome.result
        answer = wire.RunOutcome(
            output_sufficient_size=result.output_sufficient_size,
            output_shapes=[
                request_pb2.OutputShape(dimensions=shape.dimensions, is_sufficient=shape.is_sufficient)
                for shape in result.output_shapes
            ],
            time_on_device_ns=result.timing.time_on_device_ns,
            received_ns=received_ns,
            began_ns=began,
        )
        places = [output.written(result) for output in self._outputs] if result.output_sufficient_size else []
        if result.output_shapes:
            answer.output_bytes.extend(map(len, places))
        answer.ended_ns = now_ns()
        return answer, places

    def release(self) -> None:
        """Release it on the device."""
        self._remote.release()


def memory_of(request: wire.BindExecutionRequest) -> int:
    """The bytes of the memory that an execution needs of its own."""
    sent = [argument.length for argument in (*request.inputs, *request.outputs) if not argument.buffer]
    return max(sum(map(_aligned, sent)), _ALIGNMENT)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _sent(argument: RequestArgument, memory: FarMemory) -> Bytes | None:
    """Return where the bytes of an argument go that is sent; None if it is omitted, or in a buffer."""
    location = argument.location
    if argument.has_no_value or location.pool_index:
        return None
    return memory.view[location.offset : location.offset + location.length]
