"""RESHAPE: the same elements in other dimensions."""

from __future__ import annotations

from enum import IntEnum
from math import prod

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, QUANT8
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, describe


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    SHAPE = 1
    """[rank of the output]; one number may be -1."""


def validate(op: Signature) -> None:
    """Require a tensor of rank 1 to 4 and a vector of dimensions."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 6}, rank=(1, 4))
    op.tensor(Input.SHAPE, {I32: 1}, rank=1)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the requested dimensions. One of them may be -1: it is computed from the number of elements."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
    shape = op.integers(Input.SHAPE)
    if min(shape, default=0) < -1 or shape.count(-1) > 1 or not shape:
        op.refuse(f"shape {list(shape)}, expected lengths of 0 or more, of which one may be -1")
    given = op.ranked(Input.INPUT, (1, 4))
    fixed = prod(length for length in shape if length != -1)
    if 0 in given and not op.executing:
        return (tuple(max(length, 0) for length in shape),)
    elements = prod(given)
    if -1 in shape and fixed and elements % fixed == 0:
        return (tuple(elements // fixed if length == -1 else length for length in shape),)
    if -1 in shape or elements != fixed:
        op.refuse(
            f"the input has dimensions {describe(given)}, expected as many elements as the shape {list(shape)} has"
        )
    return (shape,)


RESHAPE = OperationDefinition(OperationType.RESHAPE, 1, validate, prepare)
