"""Arithmetic of the device: models of ADD and RELU of float32, on memory that the client has put on the link."""

from __future__ import annotations

import mmap
import socket
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnhal.v1 import memory_pb2, model_pb2, request_pb2, types_pb2
from tests.support.foreign.link import Session, hang_up

_FLOATS = types_pb2.OPERAND_TYPE_TENSOR_FLOAT32
_ADD, _RELU = model_pb2.OPERATION_TYPE_ADD, model_pb2.OPERATION_TYPE_RELU
_CONSTANTS = (model_pb2.OPERAND_LIFE_TIME_CONSTANT_COPY, model_pb2.OPERAND_LIFE_TIME_CONSTANT_POOL)

Values = np.ndarray[tuple[int, ...], np.dtype[Any]]


def supported(model: model_pb2.Model) -> list[bool]:
    """Say of each operation of main whether the device executes it."""
    main, tensors = model.main, {_ADD: 2, _RELU: 1}
    return [
        operation.type in tensors
        and all(main.operands[index].type == _FLOATS for index in operation.inputs[: tensors[operation.type]])
        for operation in main.operations
    ]


class Prepared:
    """A model that is ready to be executed."""

    def __init__(self, model: model_pb2.Model, session: Session) -> None:
        self.main = model.main
        self._constants = {
            index: _constant(model, operand, session)
            for index, operand in enumerate(self.main.operands)
            if operand.lifetime in _CONSTANTS
        }

    def compute(self, inputs: Sequence[Values], outputs: Sequence[Values]) -> None:
        values: dict[int, Values] = dict(self._constants)
        values.update(zip(self.main.input_indexes, inputs, strict=True))
        for operation in self.main.operations:
            first = values[operation.inputs[0]]
            if operation.type == _RELU:
                result = np.maximum(first, 0)
            else:
                result = first + values[operation.inputs[1]]
                if int(values[operation.inputs[2]][0]) == 1:  # FUSED_RELU
                    result = np.maximum(result, 0)
            values[operation.outputs[0]] = result
        for index, output in zip(self.main.output_indexes, outputs, strict=True):
            output[...] = values[index].reshape(output.shape)


class RunCounts:
    """Numbers of runs of a run channel or a chain."""

    def __init__(self) -> None:
        self.runs = self.failed_runs = self.duration_ns = 0

    def count(self, status: int, duration_ns: int) -> None:
        if status:
            self.failed_runs += 1
        else:
            self.runs += 1
            self.duration_ns += duration_ns


class Execution:
    """A prepared model on the memory of a request."""

    def __init__(self, prepared: Prepared, request: request_pb2.Request, session: Session) -> None:
        pools = [_mapped(pool.pool, session) for pool in request.pools]
        self._prepared = prepared
        self._inputs = [_floats(pools, argument) for argument in request.inputs]
        self._outputs = [_floats(pools, argument) for argument in request.outputs]
        self._busy = threading.Lock()
        self.counts = RunCounts()
        self.run_channel: socket.socket | None = None
        self.dimensions = [list(argument.dimensions) for argument in request.outputs]
        for given, index in zip(self.dimensions, prepared.main.output_indexes, strict=True):
            given[:] = given or prepared.main.operands[index].dimensions

    def close_run_channel(self) -> None:
        if self.run_channel is not None:
            hang_up(self.run_channel)

    def run(self) -> None:
        with self._busy:
            self._prepared.compute(self._inputs, self._outputs)


def _constant(model: model_pb2.Model, operand: model_pb2.Operand, session: Session) -> Values:
    place = operand.location
    copied = operand.lifetime == model_pb2.OPERAND_LIFE_TIME_CONSTANT_COPY
    raw = memoryview(model.operand_values) if copied else _mapped(model.pools[place.pool_index], session)
    code = np.float32 if operand.type in (_FLOATS, types_pb2.OPERAND_TYPE_FLOAT32) else np.int32
    return np.frombuffer(raw[place.offset : place.offset + place.length], code).copy().reshape(operand.dimensions or -1)


def _mapped(memory: memory_pb2.Memory, session: Session) -> memoryview:
    """Map a pool. One of constants may be sealed against writing."""
    if memory.WhichOneof("kind") == "ashmem":
        number, offset, size = memory.ashmem.descriptor_id, 0, memory.ashmem.size
    else:
        number, offset, size = (getattr(memory.mappable_file, name) for name in ("descriptor_id", "offset", "length"))
    skipped = offset % mmap.PAGESIZE

    def mapped(protection: int) -> memoryview:
        descriptor, start = session.put[number], offset - skipped
        return memoryview(mmap.mmap(descriptor, size + skipped, mmap.MAP_SHARED, protection, offset=start))[skipped:]

    try:
        return mapped(mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError:
        return mapped(mmap.PROT_READ)


def _floats(pools: Sequence[memoryview], argument: request_pb2.RequestArgument) -> Values:
    place = argument.location
    return np.frombuffer(pools[place.pool_index], np.float32, place.length // 4, place.offset)
