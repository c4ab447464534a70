"""HASHTABLE_LOOKUP: slices of a tensor along its first axis, selected by keys; zeros for unknown keys."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_dimensions, require_input_quantization, require_output_quantization
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    LOOKUPS = 0
    """[lookups]: keys to find."""
    KEYS = 1
    """[rows], ascending."""
    VALUES = 2
    """[rows, ...]."""


class Output(IntEnum):
    """The outputs."""

    RESULT = 0
    HITS = 1


def validate(op: Signature) -> None:
    """Require a vector of lookups, a vector of keys, and a tensor. The second output says which lookups were found."""
    op.count(3, outputs=2, names=Input)
    op.tensor(Input.LOOKUPS, {I32: 1}, rank=1)
    op.tensor(Input.KEYS, {I32: 1}, rank=1)
    op.output(Output.RESULT, op.tensor(Input.VALUES, {F32: 1, I32: 1, Q8A: 1}))
    op.output(Output.HITS, Q8A, rank=1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup, and the number of lookups."""
    require_input_quantization(op, Input.VALUES, Output.RESULT)
    require_output_quantization(op, 1, 0, Output.HITS)
    (lookups,), values = op.ranked(Input.LOOKUPS, 1), op.ranked(Input.VALUES)
    require_dimensions(op, Input.KEYS, values[:1])
    return (lookups, *values[1:]), (lookups,)


HASHTABLE_LOOKUP = OperationDefinition(OperationType.HASHTABLE_LOOKUP, 1, validate, prepare)
