"""TILE: a tensor repeated along its axes."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import integers_per_axis, require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    MULTIPLES = 1
    """[rank]."""


def validate(op: Signature) -> None:
    """Require a tensor of any rank, and a number for each of its axes."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.tensor(Input.MULTIPLES, {I32: 1}, rank=1)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions times the multiples."""
    require_input_quantization(op)
    dimensions = op.ranked(Input.INPUT)
    multiples = integers_per_axis(op, Input.MULTIPLES, Input.INPUT)
    if min(multiples) < 0:
        op.refuse(f"multiples {list(multiples)}, expected 0 or more")
    return (tuple(d * m for d, m in zip(dimensions, multiples, strict=True)),)


TILE = OperationDefinition(OperationType.TILE, 3, validate, prepare)
