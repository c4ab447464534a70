"""SLICE: a contiguous part of a tensor."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import integers_per_axis, require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

REST = -1
"""The size that stands for all elements from the beginning of the slice on."""


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    BEGIN = 1
    """[rank]."""
    SIZE = 2
    """[rank]; -1 for all that follows."""


def validate(op: Signature) -> None:
    """Require a tensor of any rank, and two numbers for each of its axes."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.tensor(Input.BEGIN, {I32: 1}, rank=1)
    op.tensor(Input.SIZE, {I32: 1}, rank=1)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the sizes."""
    require_input_quantization(op)
    begins = integers_per_axis(op, Input.BEGIN, Input.INPUT)
    sizes = integers_per_axis(op, Input.SIZE, Input.INPUT)
    result = []
    for axis, (length, begin, size) in enumerate(zip(op.known_dimensions(Input.INPUT), begins, sizes, strict=True)):
        count = length - begin if size == REST else size
        if begin < 0 or count < 0 or begin + count > length:
            op.refuse(f"begin {begin} and size {size} on axis {axis}, expected a part of its {length} elements")
        result.append(count)
    return (tuple(result),)


SLICE = OperationDefinition(OperationType.SLICE, 3, validate, prepare)
