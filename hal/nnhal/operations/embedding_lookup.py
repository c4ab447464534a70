"""EMBEDDING_LOOKUP: slices of a tensor along its first axis, selected by indices."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_indices
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    LOOKUPS = 0
    """[lookups]: indices into the first axis."""
    VALUES = 1
    """[rows, ...], rank 2 or more."""


def validate(op: Signature) -> None:
    """Require a vector of indices and a tensor of rank 2 or more."""
    op.count(2, names=Input)
    op.tensor(Input.LOOKUPS, {I32: 1}, rank=1)
    main = op.tensor(Input.VALUES, {F32: 1, I32: 3, Q8A: 3, F16: 4, Q8AS: 4})
    if len(op.inputs[Input.VALUES].dimensions) == 1:
        op.context.refuse("the values have rank 1, expected at least 2")
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup."""
    require_input_quantization(op, Input.VALUES)
    (lookups,), dimensions = op.ranked(Input.LOOKUPS, 1), op.ranked(Input.VALUES)
    if len(dimensions) == 1:
        op.refuse("the values have rank 1, expected at least 2")
    require_indices(op, Input.LOOKUPS, dimensions[0])
    return ((lookups, *dimensions[1:]),)


EMBEDDING_LOOKUP = OperationDefinition(OperationType.EMBEDDING_LOOKUP, 1, validate, prepare)
