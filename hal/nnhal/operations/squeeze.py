"""SQUEEZE: a tensor without given axes of one element."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, reduced, require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    AXES = 1
    """[axes]; all of length 1 by default."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4, and the axes, which may be NO_VALUE."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.tensor(Input.AXES, {I32: 1}, rank=1, optional=True)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the given axes, or without all of length 1. At least one axis remains."""
    require_input_quantization(op)
    dimensions = op.ranked(Input.INPUT, (1, 4))
    if not op.has(Input.AXES):
        return (tuple(length for length in op.known_dimensions(Input.INPUT) if length != 1) or (1,),)
    axes = {axis_of(op, axis, len(dimensions)) for axis in op.integers(Input.AXES)}
    for axis in axes:
        if dimensions[axis] != 1 and (dimensions[axis] or op.executing):
            op.refuse(f"axis {axis} has {dimensions[axis]} elements, expected 1")
    return (reduced(dimensions, axes, keep=False),)


SQUEEZE = OperationDefinition(OperationType.SQUEEZE, 2, validate, prepare)
