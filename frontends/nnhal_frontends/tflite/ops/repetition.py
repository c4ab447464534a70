"""Operators that fill, repeat, reverse or sort tensors."""

from __future__ import annotations

from math import ceil

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import describe
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.flat import around
from nnhal_frontends.tflite.ops._broadcast import common_shape, repetition

_SCALARS = {
    OperandType.TENSOR_FLOAT16: OperandType.FLOAT16,
    OperandType.TENSOR_FLOAT32: OperandType.FLOAT32,
    OperandType.TENSOR_INT32: OperandType.INT32,
}


def tile(b: OperatorBuilder) -> None:
    """TILE, or one for each axis that is repeated if there are more than operations take."""
    if not b.moves_flat:
        b.finish(OperationType.TILE, [b.input(0), b.input(1)])
        return
    operand, shape = b.input(0), list(b.source(0).shape)
    multiples = b.integers(1, "multiples")
    if len(multiples) != len(shape):
        raise b.unsupported(f"{len(multiples)} multiples of {describe(tuple(shape))}", "one for each axis")
    for axis, multiple in enumerate(multiples):
        if multiple != 1:
            operand = b.reshape(operand, around(shape, axis))
            operand = b.apply(OperationType.TILE, [operand, b.vector([1, multiple, 1])])
            shape[axis] *= multiple
    b.finish_reshape(operand, b.ranked(b.result()))


def broadcast_to(b: OperatorBuilder) -> None:
    """TILE to a constant shape."""
    operand = b.input(0)
    shape = common_shape(b, b.ranked(operand), tuple(b.integers(1, "shape")))
    b.finish(*repetition(b, operand, shape))


def range_(b: OperatorBuilder) -> None:
    """Give the numbers, if start, limit and step are known before execution."""
    start, limit, step = (b.required(index, what) for index, what in enumerate(("start", "limit", "step")))
    if {start.size, limit.size, step.size} != {1} or not np.isfinite([start.item(), limit.item(), step.item()]).all():
        raise b.unsupported(f"{start.size} starts, {limit.size} limits and {step.size} steps", "one finite number each")
    if step.item() == 0:
        raise b.unsupported("a step of 0", "another one")
    count = max(0, ceil((limit.item() - start.item()) / step.item()))
    b.reserve((count,), start.dtype)
    b.fold((start.item() + step.item() * np.arange(count)).astype(start.dtype))


def zeros_like(b: OperatorBuilder) -> None:
    """Give zeros, if the shape is known before execution."""
    shape, element = b.shape(0), b.element_type()
    if 0 in shape:
        raise b.unsupported("the input's shape is unknown before execution", "known shapes")
    b.reserve(shape, element)
    b.fold(np.zeros(b.tflite_shape(0), element))


def fill(b: OperatorBuilder) -> None:
    """FILL with a constant."""
    values, code = b.required(1, "value"), OperandType(b.operand(b.result()).type)
    if values.size != 1 or code not in _SCALARS:
        raise b.unsupported(f"{values.size} values of {code.name}", f"one of {', '.join(c.name for c in _SCALARS)}")
    if b.shape(0) == (0,):
        raise b.unsupported("dimensions that may be none", "one or more")
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
