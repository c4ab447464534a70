"""PACK: tensors of equal dimensions stacked along a new axis."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import agreed
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs: the axis, then one tensor or more."""

    AXIS = 0
    """Of the output; it comes first, the tensors after it."""
    FIRST = 1
    """Any rank; further inputs are the same."""


def validate(op: Signature) -> None:
    """Require tensors of one type and quantisation. The output has one axis more."""
    count = op.count(max(2, len(op.inputs)), names=Input)
    op.scalar(Input.AXIS, INT32)
    main = op.tensor(Input.FIRST, {F16: 6, F32: 6, I32: 6, Q8A: 6, Q8AS: 6})
    op.output(0, main)
    output = op.outputs[0]
    for index in range(Input.FIRST, count):
        op.same(index, Input.FIRST)
        operand = op.inputs[index]
        op.same_quantization(operand, output, f"input {index} and the output")
        if operand.dimensions and output.dimensions and len(operand.dimensions) + 1 != len(output.dimensions):
            op.context.refuse(
                f"input {index} has rank {len(operand.dimensions)} and the output rank {len(output.dimensions)}, "
                "expected one more for the output"
            )


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions with their number at the axis, which is an axis of the output."""
    dimensions = agreed(op, *range(Input.FIRST, len(op.inputs)))
    axis = op.integer(Input.AXIS)
    if not 0 <= axis <= len(dimensions):
        op.refuse(f"axis {axis}, expected 0 to {len(dimensions)}")
    return ((*dimensions[:axis], len(op.inputs) - Input.FIRST, *dimensions[axis:]),)


PACK = OperationDefinition(OperationType.PACK, 6, validate, prepare)
