"""SOFTMAX: exp((x - max) * beta), normalised along an axis."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, require_output_quantization
from nnhal.operations._types import F16, F32, INT32, Q8A, Q8AS, QUANT8, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    BETA = 1
    """The factor of the exponent, above 0."""
    AXIS = 2
    """From -rank to rank - 1; the last one by default."""


def validate(op: Signature) -> None:
    """Require a tensor of rank 1 to 4. Ranks other than 2 and 4, and the axis, need feature level 3."""
    op.count((2, 3), names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    if len(op.inputs[Input.INPUT].dimensions) not in (2, 4):
        op.since(3)
    op.scalar(Input.BETA, scalar_float(main))
    op.scalar(Input.AXIS, INT32, since=3)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(Input.INPUT)
    axis_of(op, op.integer(Input.AXIS, default=-1), len(dimensions))
    if op.real(Input.BETA) <= 0:
        op.refuse(f"beta is {op.real(Input.BETA)}, expected more than 0")
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 256, 0 if op.main_type() == Q8A else -128)
    return (dimensions,)


SOFTMAX = OperationDefinition(OperationType.SOFTMAX, 1, validate, prepare)
