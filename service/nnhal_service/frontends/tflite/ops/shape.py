"""What changes a tensor's shape or the order of its axes, and what asks for the shape."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperationType
from nnhal_service.frontends.tflite.builder import OperatorBuilder


def reshape(b: OperatorBuilder) -> None:
    """RESHAPE to the shape of the second input, where old files have an option."""
    if b.has(1) and b.constant(1) is None:
        b.finish(OperationType.RESHAPE, [b.input(0), b.input(1)])
    else:
        wanted = b.integers(1, "shape") if b.has(1) else b.operator.vector
        b.finish(OperationType.RESHAPE, [b.input(0), b.vector(wanted or (1,))])


def squeeze(b: OperatorBuilder) -> None:
    """RESHAPE to what is left without the given axes, or without all of length 1."""
    given = b.shape(0)
    axes = {b.axis(axis, len(given)) for axis in b.operator.vector}
    axes = axes or {axis for axis, length in enumerate(given) if length == 1}
    b.finish_reshape(b.input(0), [length for axis, length in enumerate(given) if axis not in axes])


def expand_dims(b: OperatorBuilder) -> None:
    """RESHAPE with one axis more."""
    given = b.tflite_shape(0)
    axis = b.axis(b.integer(1, "axis"), len(given) + 1)
    b.finish_reshape(b.input(0), (*given[:axis], 1, *given[axis:]))


def transpose(b: OperatorBuilder) -> None:
    """TRANSPOSE."""
    b.finish(OperationType.TRANSPOSE, [b.input(0), b.input(1)])


def shape(b: OperatorBuilder) -> None:
    """The lengths of the axes, which must be known before execution."""
    given = b.tflite_shape(0)
    if 0 in given:
        raise b.unsupported("the input's shape is not known before execution", "known shapes")
    b.fold(np.array(given, b.element_type()))


def rank(b: OperatorBuilder) -> None:
    """How many axes there are. The HAL's RANK gives a scalar operand, which no tensor of TFLite's is."""
    b.fold(np.array(len(b.tflite_shape(0)), b.element_type()))
