"""FILL: a tensor of given dimensions, all elements equal."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, I32, INT32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

_VALUE_TYPES = {F16: FLOAT16, F32: FLOAT32, I32: INT32}


class Input(IntEnum):
    """The inputs."""

    DIMENSIONS = 0
    """[rank]: the output's dimensions."""
    VALUE = 1
    """A scalar."""


def validate(op: Signature) -> None:
    """Require dimensions and a scalar of the output's element type."""
    op.count(2, names=Input)
    op.tensor(Input.DIMENSIONS, {I32: 4}, rank=1)
    op.scalar(Input.VALUE, _VALUE_TYPES[op.output(0, {F16: 4, F32: 4, I32: 4})])


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the given dimensions."""
    dimensions = op.integers(Input.DIMENSIONS)
    if min(dimensions, default=-1) < 0:
        op.refuse(f"dimensions {list(dimensions)}, expected at least one, each 0 or more")
    return (dimensions,)


FILL = OperationDefinition(OperationType.FILL, 4, validate, prepare)
