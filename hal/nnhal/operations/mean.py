"""MEAN: the average over axes."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, reduced, require_input_quantization
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs. If KEEP is above 0, the axes are kept with length 1."""

    INPUT = 0
    """Rank 1 to 4."""
    AXES = 1
    """[axes], each from -rank to rank - 1."""
    KEEP = 2
    """Above 0: the axes stay, with length 1."""


def validate(op: Signature) -> None:
    """Require a tensor of rank 1 to 4, a vector of axes and a number."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.tensor(Input.AXES, {I32: 1}, rank=1)
    op.scalar(Input.KEEP, INT32)
    op.output(0, main, rank=(1, 4))


def axes_of(op: OperationContext) -> tuple[int, ...]:
    """Return the axes to average over, in [0, rank), each once. Raises UnknownYet."""
    rank = len(op.ranked(Input.INPUT, (1, 4)))
    return tuple(sorted({axis_of(op, axis, rank) for axis in op.integers(Input.AXES)}))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the axes, or with 1 for each of them."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    dimensions, axes = op.ranked(Input.INPUT, (1, 4)), axes_of(op)
    if op.executing and any(dimensions[axis] == 0 for axis in axes):
        op.refuse(f"the mean over axes {list(axes)} of {list(dimensions)} has no elements, expected at least 1")
    return (reduced(dimensions, axes, op.integer(Input.KEEP) > 0),)


MEAN = OperationDefinition(OperationType.MEAN, 2, validate, prepare)
