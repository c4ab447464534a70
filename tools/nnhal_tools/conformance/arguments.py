"""The arguments of a test: inputs written to memory, outputs laid out, and outputs read afterwards."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.remote import RemoteBuffer, RemoteDevice, RemotePreparedModel
from nnhal.types import BufferRole, DataLocation, ErrorStatus, Operand, Request, RequestArgument, RequestMemoryPool
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, fully_specified, is_scalar
from nnhal_tools.conformance.memory import MemoryChoice, TestMemory
from nnhal_tools.conformance.vectors import Vector
from nnhal_tools.paint import PAINTS

_ALIGNMENT = 64


class Arguments(Protocol):
    """Memory for the arguments of one test at a time."""

    def request(self, vector: Vector, prepared: RemotePreparedModel) -> Request:
        """Write the inputs, lay out the outputs, and return the request. Raises HalError."""
        ...

    def paint(self, number: int) -> bool:
        """Paint the outputs again. Returns False if they lie in buffers of the device, which are not painted."""
        ...

    def output(self, number: int, dimensions: Dimensions, size: int) -> Bytes:
        """Read the first ``size`` bytes of an output that has these dimensions. Raises HalError."""
        ...

    def release(self) -> None:
        """Release what the test used."""
        ...


class InPools:
    """Inputs in pool 0, outputs in pool 1, each aligned."""

    def __init__(self, kind: MemoryChoice) -> None:
        self._inputs = TestMemory(kind)
        self._outputs = TestMemory(kind)
        self._locations: list[DataLocation] = []
        self._painted = 0

    def request(self, vector: Vector, prepared: RemotePreparedModel) -> Request:
        main = vector.model.main
        sizes = [0 if array is None else max(1, array.nbytes) for array in vector.inputs]
        self._inputs.reserve(sum(round_up(size, _ALIGNMENT) for size in sizes) or 1)
        inputs, offset = [], 0
        for array, index, size in zip(vector.inputs, main.input_indexes, sizes, strict=True):
            if array is None:
                inputs.append(RequestArgument(has_no_value=True))
                continue
            self._inputs.pool.write(offset, bytes_of(array))
            inputs.append(RequestArgument(DataLocation(0, offset, size), given(main.operands[index], array.shape)))
            offset += round_up(size, _ALIGNMENT)
        sizes = [max(1, expected.values.nbytes) for expected in vector.outputs]
        total = sum(round_up(size, _ALIGNMENT) for size in sizes)
        self._outputs.reserve(total)
        self._painted = total
        self.paint(0)
        self._locations, offset = [], 0
        for size in sizes:
            self._locations.append(DataLocation(1, offset, size))
            offset += round_up(size, _ALIGNMENT)
        outputs = tuple(RequestArgument(location) for location in self._locations)
        return Request(tuple(inputs), outputs, (self._inputs.memory, self._outputs.memory))

    def paint(self, number: int) -> bool:
        self._outputs.pool.write(0, np.full(self._painted, PAINTS[number], np.uint8))
        return True

    def output(self, number: int, dimensions: Dimensions, size: int) -> Bytes:
        return self._outputs.pool.read(self._locations[number].offset, size)

    def release(self) -> None:
        pass  # the next test uses the same memory


class InBuffers:
    """Every input and output in a device buffer of its own, or in ordinary memory if the device allocates none."""

    def __init__(self, device: RemoteDevice) -> None:
        self._device = device
        self._pools = InPools(MemoryChoice.ASHMEM)
        self._outputs: list[tuple[RemoteBuffer, Operand]] = []
        self._buffers: list[RemoteBuffer] = []

    def request(self, vector: Vector, prepared: RemotePreparedModel) -> Request:
        try:
            return self._request(vector, prepared)
        except HalError as error:
            self.release()
            if error.status != ErrorStatus.GENERAL_FAILURE:
                raise
            return self._pools.request(vector, prepared)

    def paint(self, number: int) -> bool:
        return not self._outputs and self._pools.paint(number)

    def output(self, number: int, dimensions: Dimensions, size: int) -> Bytes:
        if not self._outputs:
            return self._pools.output(number, dimensions, size)
        buffer, operand = self._outputs[number]
        memory = create_ashmem(max(1, ELEMENT_TYPES[operand.type].itemsize * prod(dimensions)), "nnhal-test")
        if size:
            buffer.copy_to(memory)
        return open_pool(memory, writable=False).read(0, size)

    def release(self) -> None:
        for buffer in self._buffers:
            buffer.release()
        self._buffers, self._outputs = [], []

    def _request(self, vector: Vector, prepared: RemotePreparedModel) -> Request:
        main = vector.model.main
        inputs: list[RequestArgument] = []
        pools: list[RequestMemoryPool] = []
        for number, (array, index) in enumerate(zip(vector.inputs, main.input_indexes, strict=True)):
            if array is None or not array.size:
                inputs.append(RequestArgument(has_no_value=True))
                continue
            dimensions = given(main.operands[index], array.shape)
            buffer = self._device.allocate([prepared], [BufferRole(0, number)], dimensions=dimensions)
            self._buffers.append(buffer)
            source = create_ashmem(array.nbytes, "nnhal-test")
            open_pool(source, writable=True).write(0, bytes_of(array))
            buffer.copy_from(source)
            inputs.append(RequestArgument(DataLocation(len(pools)), dimensions))
            pools.append(buffer.token)
        outputs = []
        for number, index in enumerate(main.output_indexes):
            buffer = self._device.allocate([prepared], [], [BufferRole(0, number)])
            self._buffers.append(buffer)
            self._outputs.append((buffer, main.operands[index]))
            outputs.append(RequestArgument(DataLocation(len(pools))))
            pools.append(buffer.token)
        return Request(tuple(inputs), tuple(outputs), tuple(pools))


def bytes_of(array: Array) -> Bytes:
    """The elements of an array, row by row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def given(operand: Operand, shape: Dimensions) -> Dimensions:
    """The dimensions that a request must give: none if the model has them all."""
    return () if is_scalar(operand.type) or fully_specified(operand.type, operand.dimensions) else shape
