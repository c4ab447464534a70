"""GATHER: slices of a tensor along an axis, selected by indices."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_indices
from nnhal.operations._shape import axis_of, require_input_quantization
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    AXIS = 1
    """From -rank to rank - 1."""
    INDICES = 2
    """Any rank."""


def validate(op: Signature) -> None:
    """Require a tensor and indices, both of any rank."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.scalar(Input.AXIS, INT32)
    op.tensor(Input.INDICES, {I32: 1})
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with those of the indices in place of the axis."""
    require_input_quantization(op)
    dimensions = op.ranked(Input.INPUT)
    axis = axis_of(op, op.integer(Input.AXIS), len(dimensions))
    require_indices(op, Input.INDICES, dimensions[axis])
    return (dimensions[:axis] + op.ranked(Input.INDICES) + dimensions[axis + 1 :],)


GATHER = OperationDefinition(OperationType.GATHER, 3, validate, prepare)
