"""SELECT: elements of the first tensor where a mask is true, elsewhere of the second. Quantisations may differ."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import agreed
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    MASK = 0
    """Any dimensions."""
    FIRST = 1
    """The mask's dimensions."""
    SECOND = 2
    """The mask's dimensions."""


def validate(op: Signature) -> None:
    """Require a mask and two tensors of one type."""
    op.count(3, names=Input)
    op.tensor(Input.MASK, {B8: 3})
    main = op.tensor(Input.FIRST, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.same(Input.SECOND, Input.FIRST)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the common dimensions of all three inputs, which do not broadcast."""
    return (agreed(op, Input.MASK, Input.FIRST, Input.SECOND),)


SELECT = OperationDefinition(OperationType.SELECT, 3, validate, prepare)
