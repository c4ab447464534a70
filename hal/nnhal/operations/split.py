"""SPLIT: equal parts of a tensor along an axis, one output for each."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
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
    NUM_SPLITS = 2
    """How many outputs there are."""


def validate(op: Signature) -> None:
    """Require a tensor of any rank. Preparation compares the number of outputs with the number of splits."""
    op.count(3, outputs=max(1, len(op.outputs)), names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.scalar(Input.AXIS, INT32)
    op.scalar(Input.NUM_SPLITS, INT32)
    for index in range(len(op.outputs)):
        op.output(index, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with the axis divided, for each output."""
    for index in range(len(op.outputs)):
        require_input_quantization(op, Input.INPUT, index)
    count = op.integer(Input.NUM_SPLITS)
    if count != len(op.outputs):
        op.refuse(f"got {count} splits and {len(op.outputs)} outputs, expected equal numbers")
    dimensions = op.ranked(Input.INPUT)
    axis = axis_of(op, op.integer(Input.AXIS), len(dimensions))
    if dimensions[axis] % count:
        op.refuse(f"axis {axis} has {dimensions[axis]} elements, expected a multiple of {count}")
    return ((*dimensions[:axis], dimensions[axis] // count, *dimensions[axis + 1 :]),) * count


SPLIT = OperationDefinition(OperationType.SPLIT, 3, validate, prepare)
