"""One execution of a prepared model, through the contract alone: memory of its arguments, the call, its outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from math import prod
from pathlib import Path

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.clock import now_ns
from nnhal.codec.lengths import Lengths
from nnhal.codec.nanoseconds import deadline_after
from nnhal.errors import HalError, general_failure
from nnhal.fence import FenceError
from nnhal.memory import MappedPool, Pool, Region, create_ashmem, create_blob, open_pool
from nnhal.memory.arena import round_up
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteBuffer, RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.tensors import ALIGNMENT, GUESS
from nnhal.types import (
    NO_DEADLINE,
    BufferRole,
    DataLocation,
    ErrorStatus,
    ExecutionResult,
    Memory,
    Model,
    Operand,
    Request,
    RequestArgument,
    RequestMemoryPool,
)
from nnhal.types.layout import Dimensions, combine, fully_specified, is_scalar
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice
from nnhal_tools.element_types import element_type_of
from nnhal_tools.paint import PAINTS

_LEAST_BYTES = 1 << 20
_TRIES = 3
"""Executions of one request: the sizes of outputs may become known one after another."""

Arrays = Sequence[Array | None]
"""Values of inputs, as they lie in memory; None for an omitted one."""


class GrowingPool:
    """A pool of one kind, which later executions reuse if they fit."""

    def __init__(self, kind: MemoryChoice) -> None:
        self._kind = kind
        self.memory, self.pool = _created(kind, _LEAST_BYTES)

    def places(self, sizes: Sequence[int], index: int) -> list[DataLocation]:
        """Have room for values of so many bytes, and return where they lie in the pool of this index."""
        places, end = [], 0
        for size in sizes:
            places.append(DataLocation(index, end, max(size, 1)))
            end += round_up(max(size, 1), ALIGNMENT)
        if end > self.pool.size:
            self.memory, self.pool = _created(self._kind, 2 * end)
        return places


def _created(kind: MemoryChoice, size: int) -> tuple[Memory, Pool]:
    if kind == MemoryChoice.MMAP_FD:
        with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
            file = create_file(Path(directory) / "pool", size)
        return file, MappedPool(Region(file.descriptor, file.length, file.offset))  # no other process truncates it
    memory = create_ashmem(size, "nnhal-tools") if kind == MemoryChoice.ASHMEM else create_blob(size)
    return memory, open_pool(memory, writable=True)


class InPools:
    """Arguments of one execution at a time: inputs in pool 0, outputs in pool 1, each aligned."""

    def __init__(self, kind: MemoryChoice = MemoryChoice.ASHMEM) -> None:
        self._inputs, self._results = GrowingPool(kind), GrowingPool(kind)
        self._locations: list[DataLocation] = []

    def request(self, model: Model, prepared: RemotePreparedModel, inputs: Arrays, sizes: Sequence[int]) -> Request:
        """Write the inputs, lay out outputs of so many bytes, and return the request. Raises HalError."""
        places = self._inputs.places([0 if array is None else array.nbytes for array in inputs], 0)
        arguments = []
        for array, index, place in zip(inputs, model.main.input_indexes, places, strict=True):
            if array is None:
                arguments.append(RequestArgument(has_no_value=True))
                continue
            self._inputs.pool.write(place.offset, bytes_of(array))
            arguments.append(RequestArgument(place, given(model.main.operands[index], array.shape)))
        self._locations = self._results.places(sizes, 1)
        self.paint(0)
        outputs = tuple(RequestArgument(location) for location in self._locations)
        return Request(tuple(arguments), outputs, (self._inputs.memory, self._results.memory))

    def paint(self, number: int) -> bool:
        """Paint the outputs again. Returns False if they lie in buffers of the device, which are not painted."""
        end = max((place.offset + place.length for place in self._locations), default=0)
        self._results.pool.write(0, np.full(end, PAINTS[number], np.uint8))
        return True

    def output(self, number: int, dimensions: Dimensions, size: int) -> Bytes:
        """Read the first ``size`` bytes of an output that has these dimensions. Raises HalError."""
        return self._results.pool.read(self._locations[number].offset, size)

    def release(self) -> None:
        """Release what the execution used, but for memory that the next one may use."""


class InBuffers(InPools):
    """Every input and output in a device buffer of its own, or in ordinary memory if the device allocates none."""

    def __init__(self, device: RemoteDevice) -> None:
        super().__init__()
        self._device = device
        self._outputs: list[tuple[RemoteBuffer, int]] = []
        self._buffers: list[RemoteBuffer] = []

    def request(self, model: Model, prepared: RemotePreparedModel, inputs: Arrays, sizes: Sequence[int]) -> Request:
        try:
            return self._request(model, prepared, inputs)
        except HalError as error:
            self.release()
            if error.status != ErrorStatus.GENERAL_FAILURE:
                raise
            return super().request(model, prepared, inputs, sizes)

    def paint(self, number: int) -> bool:
        return not self._outputs and super().paint(number)

    def output(self, number: int, dimensions: Dimensions, size: int) -> Bytes:
        if not self._outputs:
            return super().output(number, dimensions, size)
        buffer, element_bytes = self._outputs[number]
        memory = create_ashmem(max(1, element_bytes * prod(dimensions)), "nnhal-tools")
        if size:
            buffer.copy_to(memory)
        return open_pool(memory, writable=False).read(0, size)

    def release(self) -> None:
        for buffer in self._buffers:
            buffer.release()
        self._buffers, self._outputs = [], []

    def _request(self, model: Model, prepared: RemotePreparedModel, inputs: Arrays) -> Request:
        main, arguments, outputs = model.main, list[RequestArgument](), list[RequestArgument]()
        pools: list[RequestMemoryPool] = []

        def allocated(places: list[RequestArgument], buffer: RemoteBuffer, dimensions: Dimensions = ()) -> RemoteBuffer:
            self._buffers.append(buffer)
            places.append(RequestArgument(DataLocation(len(pools)), dimensions))
            pools.append(buffer.token)
            return buffer

        for number, (array, index) in enumerate(zip(inputs, main.input_indexes, strict=True)):
            if array is None or not array.size:
                arguments.append(RequestArgument(has_no_value=True))
                continue
            shape = given(main.operands[index], array.shape)
            buffer = self._device.allocate([prepared], [BufferRole(0, number)], dimensions=shape)
            source = create_ashmem(array.nbytes, "nnhal-tools")
            open_pool(source, writable=True).write(0, bytes_of(array))
            allocated(arguments, buffer, shape).copy_from(source)
        for number, index in enumerate(main.output_indexes):
            buffer = allocated(outputs, self._device.allocate([prepared], [], [BufferRole(0, number)]))
            self._outputs.append((buffer, element_type_of(model, main.operands[index].type).itemsize))
        return Request(tuple(arguments), tuple(outputs), tuple(pools))


def bytes_of(array: Array) -> Bytes:
    """The elements of an array, row by row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def given(operand: Operand, shape: Dimensions) -> Dimensions:
    """The dimensions that a request must give: none if the model has them all."""
    return () if is_scalar(operand.type) or fully_specified(operand.type, operand.dimensions) else shape


def deadline_in(seconds: float | None) -> int:
    """Return the instant some seconds from now, by CLOCK_BOOTTIME; none without them."""
    return NO_DEADLINE if seconds is None else deadline_after(now_ns(), round(seconds * 1e9))


def execute(
    prepared: RemotePreparedModel, request: Request, mode: ExecutionMode, deadline_ns: int, lengths: Lengths = ()
) -> ExecutionResult:
    """Execute a request in a mode, a reusable execution twice; with lengths of inputs over a burst. Raises HalError."""
    if lengths:
        return _execute_with(lengths, prepared, request, deadline_ns)
    if mode == ExecutionMode.SYNC:
        return prepared.execute(request, deadline_ns=deadline_ns)
    if mode == ExecutionMode.BURST:
        burst = prepared.configure_execution_burst()
        try:
            return burst.execute(request, range(len(request.pools)), deadline_ns=deadline_ns).result
        finally:
            burst.close()
    if mode == ExecutionMode.FENCED:
        return _awaited(prepared.execute_fenced(request, deadline_ns=deadline_ns))
    execution = prepared.create_reusable_execution(request)
    try:
        execution.execute(deadline_ns)
        return execution.execute(deadline_ns)
    finally:
        execution.release()


def _execute_with(
    lengths: Lengths, prepared: RemotePreparedModel, request: Request, deadline_ns: int
) -> ExecutionResult:
    with ExitStack() as stack:
        burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(request)
        stack.callback(burst.close)
        stack.callback(execution.release)
        burst.start(execution, deadline_ns, lengths)
        return burst.finish(execution).result


def _awaited(launched: RemoteFencedExecution) -> ExecutionResult:
    try:
        if launched.fence is not None:
            with suppress(FenceError):
                launched.fence.wait()
        info = launched.info()
    finally:
        launched.release()
    if info.status != ErrorStatus.NONE:
        raise HalError(info.status, info.message)
    return ExecutionResult(timing=info.timing_fenced)


def run_on(
    device: RemoteDevice, model: Model, samples: Sequence[Arrays], seconds: float | None = None
) -> list[list[Array]]:
    """Prepare a model and execute it once for each sample; return the outputs of each.

    Arrays are in the form that operands have in memory. ``seconds`` limits the preparation and each execution. Raises
    HalError if the device refuses or fails, DeadObjectError if it is gone.
    """
    prepared, memory = device.prepare_model(model, deadline_ns=deadline_in(seconds)), InPools()
    try:
        return [_outputs(prepared, memory, model, inputs, seconds) for inputs in samples]
    finally:
        prepared.release()


def _outputs(
    prepared: RemotePreparedModel, memory: InPools, model: Model, inputs: Arrays, seconds: float | None
) -> list[Array]:
    operands = [model.main.operands[index] for index in model.main.output_indexes]
    shapes = [operand.dimensions for operand in operands]
    for _ in range(_TRIES):
        sizes = [_size(model, operand, shape) or GUESS for operand, shape in zip(operands, shapes, strict=True)]
        request = memory.request(model, prepared, inputs, sizes)
        result = prepared.execute(request, deadline_ns=deadline_in(seconds))
        found = [shape.dimensions for shape in result.output_shapes] or shapes
        if result.output_sufficient_size:
            return [
                memory.output(number, shape, _size(model, operand, shape))
                .view(element_type_of(model, operand.type))
                .reshape(shape)
                for number, (operand, shape) in enumerate(zip(operands, found, strict=True))
            ]
        shapes = [combine(known, shape) or known for known, shape in zip(shapes, found, strict=True)]
    general_failure("the outputs did not fit the sizes that the device had asked for")


def _size(model: Model, operand: Operand, shape: Dimensions) -> int:
    """Return the bytes of an operand in a shape; 0 if they are unknown."""
    if not shape and not is_scalar(operand.type):
        return 0
    return element_type_of(model, operand.type).itemsize * prod(shape)
