"""REVERSE: the elements along one axis in reverse order."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 8."""
    AXIS = 1
    """[1]."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 8 and a vector of one axis. The output has the input's type and dimensions."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F16: 7, F32: 7, I32: 7, Q8A: 7, Q8AS: 7}, rank=(1, 8))
    op.tensor(Input.AXIS, {I32: 1}, rank=1)
    op.output(0, main)
    given, result = op.inputs[Input.INPUT], op.outputs[0]
    op.same_quantization(given, result, "input and output")
    if combine(given.dimensions, result.dimensions) is None:
        op.context.refuse(
            f"input and output have dimensions {describe(given.dimensions)} and {describe(result.dimensions)}, "
            "expected equal ones"
        )


def axis_of_reversal(op: OperationContext) -> int:
    """Return the axis, which is not negative."""
    rank, axes = len(op.ranked(Input.INPUT)), op.integers(Input.AXIS)
    if len(axes) != 1 or not 0 <= axes[0] < rank:
        op.refuse(f"axes {list(axes)}, expected one axis, 0 to {rank - 1}")
    return axes[0]


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    axis_of_reversal(op)
    return (op.ranked(Input.INPUT),)


REVERSE = OperationDefinition(OperationType.REVERSE, 7, validate, prepare)
