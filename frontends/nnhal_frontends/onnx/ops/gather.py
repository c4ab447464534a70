"""Gather: slices picked by indices."""

from __future__ import annotations

import numpy as np

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter

_BOOL = Operand(OperandType.TENSOR_BOOL8)


def convert(b: NodeBuilder) -> None:
    """GATHER; a scalar index removes its axis."""
    shape = b.shape(0)
    axis = b.attribute("axis", 0)
    axis += len(shape) if axis < 0 else 0
    inputs = [b.input(0), b.int32(axis), _indices(b, shape[axis])]
    if b.shape(1):
        b.finish(OperationType.GATHER, inputs)
    else:
        b.finish_reshape(b.apply(OperationType.GATHER, inputs))


def _indices(b: NodeBuilder, length: int) -> int:
    """Return the indices without negative ones, which the HAL does not take: in ONNX they count from the end."""
    values = b.constant(1)
    if values is not None and not (values < 0).any():
        return b.input(1)
    if not length:
        raise b.node.unsupported("indices that may be negative, on an axis of unknown length", "fixed shapes")
    if values is not None:
        return b.add_constant(OperandType.TENSOR_INT32, np.atleast_1d(np.where(values < 0, values + length, values)))
    indices = b.input(1)
    negative = b.apply(OperationType.LESS, [indices, b.vector([0])], like=_BOOL)
    counted = b.apply(OperationType.ADD, [indices, b.vector([length]), b.int32(0)])
    return b.apply(OperationType.SELECT, [negative, counted, indices], like=counted)


GATHER = Converter(convert)
