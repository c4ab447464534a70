"""Element-wise functions of two tensors that broadcast, without a fused activation."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import broadcast
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    FIRST = 0
    """Any dimensions."""
    SECOND = 1
    """Dimensions that broadcast with the first's: aligned at the last axis, equal or 1."""


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions, broadcast."""
    return (broadcast(op, op.ranked(Input.FIRST), op.ranked(Input.SECOND)),)


def pairwise(
    kind: OperationType, types: dict[OperandType, int], result: OperandType | None = None
) -> OperationDefinition:
    """Define an operation of feature level 3 on two tensors of one type. The output has type ``result``, or theirs."""

    def validate(op: Signature) -> None:
        op.count(2, names=Input)
        main = op.tensor(Input.FIRST, types)
        op.same(Input.SECOND, Input.FIRST)
        op.output(0, main if result is None else result)

    return OperationDefinition(kind, 3, validate, prepare)
