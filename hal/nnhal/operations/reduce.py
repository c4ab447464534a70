"""REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD and REDUCE_SUM along given axes."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, reduced, require_input_quantization
from nnhal.operations._types import B8, BOOL, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    AXES = 1
    """[axes], each from -rank to rank - 1."""
    KEEP_DIMS = 2
    """Whether the axes stay, with length 1."""


def axes_of(op: OperationContext) -> tuple[int, ...]:
    """Return the axes to reduce, in ascending order, each once."""
    rank = len(op.ranked(Input.INPUT, (1, 4)))
    return tuple(sorted({axis_of(op, axis, rank) for axis in op.integers(Input.AXES)}))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the reduced axes, or with 1 in their place. At least one axis remains."""
    require_input_quantization(op)
    return (reduced(op.ranked(Input.INPUT), axes_of(op), op.boolean(Input.KEEP_DIMS)),)


def _definition(kind: OperationType, types: dict[OperandType, int]) -> OperationDefinition:
    def validate(op: Signature) -> None:
        op.count(3, names=Input)
        main = op.tensor(Input.INPUT, types, rank=(1, 4))
        op.tensor(Input.AXES, {I32: 1}, rank=1)
        op.scalar(Input.KEEP_DIMS, BOOL)
        op.output(0, main)

    return OperationDefinition(kind, 3, validate, prepare)


REDUCE_ALL = _definition(OperationType.REDUCE_ALL, {B8: 3})
REDUCE_ANY = _definition(OperationType.REDUCE_ANY, {B8: 3})
REDUCE_MAX = _definition(OperationType.REDUCE_MAX, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})
REDUCE_MIN = _definition(OperationType.REDUCE_MIN, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})
REDUCE_PROD = _definition(OperationType.REDUCE_PROD, {F16: 3, F32: 3})
REDUCE_SUM = _definition(OperationType.REDUCE_SUM, {F16: 3, F32: 3})
