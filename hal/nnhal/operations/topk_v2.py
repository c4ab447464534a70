"""TOPK_V2: the k largest elements along the last axis in descending order, and their indices."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    K = 1
    """At most the length of the last axis."""


def validate(op: Signature) -> None:
    """Require a tensor of any rank. The outputs are values and indices."""
    op.count(2, outputs=2, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.scalar(Input.K, INT32)
    op.output(0, main)
    op.output(1, I32)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with k as the last one, for the values and for their indices."""
    require_input_quantization(op)
    dimensions, k = op.ranked(Input.INPUT), op.integer(Input.K)
    if k < 1 or (k > dimensions[-1] and (dimensions[-1] or op.executing)):
        op.refuse(f"k is {k}, expected 1 to {dimensions[-1]}, the length of the last axis")
    return ((*dimensions[:-1], k),) * 2


TOPK_V2 = OperationDefinition(OperationType.TOPK_V2, 3, validate, prepare)
