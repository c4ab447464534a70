"""RANK: the number of a tensor's axes, as a scalar."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import B8, F16, F32, I32, INT32, Q8A, Q8AS, Q8C, Q8S, Q16A, Q16S
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""


def validate(op: Signature) -> None:
    """Require a tensor of any type and rank."""
    op.count(1, names=Input)
    op.tensor(Input.INPUT, dict.fromkeys((F16, F32, I32, Q8A, Q16S, B8, Q8C, Q16A, Q8S, Q8AS), 4))
    op.output(0, INT32)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a scalar: none."""
    op.ranked(Input.INPUT)
    return ((),)


RANK = OperationDefinition(OperationType.RANK, 4, validate, prepare)
