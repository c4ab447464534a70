"""Operators that fill, repeat, reverse or sort tensors."""

from __future__ import annotations

from nnhal.types import OperandType, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._broadcast import common_shape, repetition

_SCALARS = {
    OperandType.TENSOR_FLOAT16: OperandType.FLOAT16,
    OperandType.TENSOR_FLOAT32: OperandType.FLOAT32,
    OperandType.TENSOR_INT32: OperandType.INT32,
}


def tile(b: OperatorBuilder) -> None:
    """TILE."""
    b.finish(OperationType.TILE, [b.input(0), b.input(1)])


def broadcast_to(b: OperatorBuilder) -> None:
    """TILE to a constant shape."""
    operand = b.input(0)
    shape = common_shape(b, b.ranked(operand), tuple(b.integers(1, "shape")))
    b.finish(*repetition(b, operand, shape))


def fill(b: OperatorBuilder) -> None:
    """FILL with a constant."""
    values, code = b.required(1, "value"), OperandType(b.operand(b.result()).type)
    if values.size != 1 or code not in _SCALARS:
        raise b.unsupported(f"{values.size} values of {code.name}", f"one of {', '.join(c.name for c in _SCALARS)}")
    b.finish(OperationType.FILL, [b.input(0), b.add_constant(_SCALARS[code], values.reshape(()))])


def reverse(b: OperatorBuilder) -> None:
    """A REVERSE for each axis."""
    tensor, rank = b.input(0), len(b.shape(0))
    axes = sorted({b.axis(axis, rank) for axis in b.integers(1, "axes")})
    if not axes:
        raise b.unsupported("no axes", "one or more")
    for axis in axes[1:]:
        tensor = b.apply(OperationType.REVERSE, [tensor, b.vector([axis])])
    b.finish(OperationType.REVERSE, [tensor, b.vector(axes[:1])])


def top_k(b: OperatorBuilder) -> None:
    """TOPK_V2: values and indices. TFLite orders equal values by index; the HAL leaves their order undefined."""
    b.add(OperationType.TOPK_V2, [b.input(0), b.int32(b.integer(1, "k"))], b.results())
