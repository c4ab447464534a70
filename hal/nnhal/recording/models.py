"""Models in recordings: their constants are contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.codec import model_from_wire, model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import general_failure
from nnhal.memory.ashmem import create_read_only
from nnhal.resolved import ResolvedModel
from nnhal.types import DataLocation, Memory, Model, Operand, OperandLifeTime
from nnhal.v1 import model_pb2
from nnhal.v1 import recording_pb2 as wire

WEIGHT_BYTES = 1024
"""Constants of more bytes are weights, which a recording may leave out; others are parameters of operations."""
_ALIGNMENT = 64


def recorded_model(resolved: ResolvedModel, content: Callable[[Bytes], wire.RecordedContent]) -> wire.RecordedModel:
    """Return a model as a recording has it; ``content`` keeps the bytes of a constant."""
    model = replace(resolved.model, operand_values=b"", pools=())
    constants = [
        wire.RecordedConstant(subgraph=subgraph, operand=operand, value=content(_bytes(values)))
        for subgraph, found in enumerate(resolved.constants)
        for operand, values in found.items()
    ]
    return wire.RecordedModel(model=model_to_wire(model, _no_number), constants=constants)


def refused_model(message: model_pb2.Model) -> wire.RecordedModel:
    """Return a model that its device could not read, as it was sent, but without its pools."""
    kept = wire.RecordedModel(model=message)
    del kept.model.pools[:]
    return kept


def restored_model(recorded: wire.RecordedModel, content: Callable[[wire.RecordedContent], bytes]) -> Model:
    """Return the model of a recording, with a new pool for what lay in pools.

    ``content`` returns the bytes of a constant, and may raise.
    """
    model = model_from_wire(recorded.model, _no_descriptor)
    values = {(one.subgraph, one.operand): content(one.value) for one in recorded.constants}
    copied, pooled = bytearray(), bytearray()

    def placed(subgraph: int, number: int, operand: Operand) -> Operand:
        value = values.get((subgraph, number))
        if value is None:
            return operand
        is_pooled = operand.lifetime == OperandLifeTime.CONSTANT_POOL
        target = pooled if is_pooled else copied
        target.extend(bytes(-len(target) % _ALIGNMENT))
        location = DataLocation(0, len(target), len(value))
        target.extend(value)
        lifetime = OperandLifeTime.CONSTANT_POOL if is_pooled else OperandLifeTime.CONSTANT_COPY
        return replace(operand, lifetime=lifetime, location=location)

    main, *referenced = (
        replace(graph, operands=tuple(placed(subgraph, n, operand) for n, operand in enumerate(graph.operands)))
        for subgraph, graph in enumerate((model.main, *model.referenced))
    )
    pools = (_pool(pooled),) if pooled else ()
    inlined = bytes(copied) if values else model.operand_values
    return replace(model, main=main, referenced=tuple(referenced), operand_values=inlined, pools=pools)


def _pool(values: bytearray) -> Memory:
    return create_read_only([(0, np.frombuffer(values, np.uint8))], len(values), "nnhal-replay")


def _bytes(values: Array) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _no_number(_: Descriptor) -> int:
    raise AssertionError("the pools were left out")


def _no_descriptor(number: int) -> Descriptor:
    general_failure(f"the model of the recording names descriptor {number}, expected none")
