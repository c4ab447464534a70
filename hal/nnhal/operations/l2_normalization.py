"""L2_NORMALIZATION: vectors along an axis divided by their length."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, require_output_quantization
from nnhal.operations._types import F16, F32, INT32, Q8A, Q8AS, QUANT8
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    AXIS = 1
    """The last one by default."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4. Ranks below 4, and the axis, need feature level 3."""
    op.count((1, 2), names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4))
    if len(op.inputs[Input.INPUT].dimensions) != 4:
        op.since(3)
    op.scalar(Input.AXIS, INT32, since=3)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [-1, 1)."""
    dimensions = op.ranked(Input.INPUT, (1, 4))
    axis_of(op, op.integer(Input.AXIS, default=-1), len(dimensions))
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 128, 128 if op.main_type() == Q8A else 0)
    return (dimensions,)


L2_NORMALIZATION = OperationDefinition(OperationType.L2_NORMALIZATION, 1, validate, prepare)
