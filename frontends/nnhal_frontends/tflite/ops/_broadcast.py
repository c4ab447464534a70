"""Repeat tensors along their axes, for operations that broadcast in TFLite and not in the HAL."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions, describe
from nnhal_frontends.tflite.builder import OperatorBuilder


def common_shape(b: OperatorBuilder, *shapes: Dimensions) -> Dimensions:
    """Return the shape that tensors broadcast to. Raises UnsupportedNode if it is unknown or the shapes do not fit."""
    if any(0 in shape for shape in shapes):
        raise b.unsupported(f"shapes {', '.join(describe(shape) for shape in shapes)} are unknown", "known shapes")
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise b.unsupported(str(error)) from error


def repeated(b: OperatorBuilder, operand: int, shape: Dimensions) -> int:
    """Repeat an operand to a shape that it broadcasts to."""
    if b.operand(operand).dimensions == shape:
        return operand
    code, inputs = repetition(b, operand, shape)
    return b.apply(code, inputs)


def repetition(b: OperatorBuilder, operand: int, shape: Dimensions) -> tuple[OperationType, list[int]]:
    """Return the operation that repeats an operand to a shape that it broadcasts to, with its inputs."""
    source = b.operand(operand)
    if source.type == OperandType.TENSOR_BOOL8:
        return OperationType.LOGICAL_OR, [operand, b.filled(OperandType.TENSOR_BOOL8, shape)]
    aligned = (1,) * (len(shape) - len(source.dimensions)) + source.dimensions
    if any(length == 0 != wanted for wanted, length in zip(shape, aligned, strict=True)):
        raise b.unsupported(f"{describe(source.dimensions)} is repeated to {describe(shape)}", "known shapes")
    if aligned != source.dimensions:
        operand = b.reshape(operand, aligned)
    multiples = [1 if length == wanted else wanted // length for wanted, length in zip(shape, aligned, strict=True)]
    return OperationType.TILE, [operand, b.vector(multiples)]
