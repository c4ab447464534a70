"""Operators that change a tensor's shape or the order of its axes, or return its shape."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.flat import folded


def reshape(b: OperatorBuilder) -> None:
    """RESHAPE to the shape in the second input, or in an option in old files."""
    if b.moves_flat:
        b.finish_reshape(b.input(0), b.ranked(b.result()))
    elif b.has(1) and b.constant(1) is None:
        b.finish(OperationType.RESHAPE, [b.input(0), b.input(1)])
    else:
        wanted = b.integers(1, "shape") if b.has(1) else b.operator.vector
        b.finish(OperationType.RESHAPE, [b.input(0), b.vector(wanted or (1,))])


def squeeze(b: OperatorBuilder) -> None:
    """RESHAPE without the given axes, or without all axes of length 1."""
    given = b.shape(0)
    axes = {b.axis(axis, len(given)) for axis in b.operator.vector}
    axes = axes or {axis for axis, length in enumerate(given) if length == 1}
    b.finish_reshape(b.input(0), [length for axis, length in enumerate(given) if axis not in axes])


def expand_dims(b: OperatorBuilder) -> None:
    """RESHAPE with an additional axis."""
    given = b.tflite_shape(0)
    axis = b.axis(b.integer(1, "axis"), len(given) + 1)
    b.finish_reshape(b.input(0), (*given[:axis], 1, *given[axis:]))


def transpose(b: OperatorBuilder) -> None:
    """TRANSPOSE, of fewer axes if there are more than operations take."""
    if not b.moves_flat:
        b.finish(OperationType.TRANSPOSE, [b.input(0), b.input(1)])
        return
    given = b.source(0).shape
    order = [b.axis(axis, len(given)) for axis in b.integers(1, "permutation")]
    if sorted(order) != list(range(len(given))):
        raise b.unsupported(f"permutation {order} of {len(given)} axes", "each axis once")
    shape, axes = folded(given, order)
    operand = b.reshape(b.input(0), shape)
    if len(axes) > 1:
        operand = b.apply(OperationType.TRANSPOSE, [operand, b.vector(axes)])
    b.finish_reshape(operand, b.ranked(b.result()))


def shape(b: OperatorBuilder) -> None:
    """Give the shape of the input, which must be known before execution."""
    given = b.tflite_shape(0)
    if 0 in given:
        raise b.unsupported("the input's shape is unknown before execution", "known shapes")
    b.fold(np.array(given, b.element_type()))


def rank(b: OperatorBuilder) -> None:
    """Give the rank of the input. The HAL's RANK is of no use: its result is a scalar operand, and not a tensor."""
    b.fold(np.array(len(b.tflite_shape(0)), b.element_type()))
