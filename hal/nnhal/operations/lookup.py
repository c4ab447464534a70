"""Lookups: rows by index, by key, and by a hash.

GATHER: slices of a tensor along an axis, selected by indices.

EMBEDDING_LOOKUP: slices of a tensor along its first axis, selected by indices.

HASHTABLE_LOOKUP: slices of a tensor along its first axis, selected by keys; zeros for unknown keys.

LSH_PROJECTION: locality-sensitive hashes of a tensor's slices along its first axis.
Each element of the hash tensor seeds one hash function, which yields one bit. The output of the dense projection is the
bits; that of the sparse projections is a number for each row of bits.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import (
    axis_of,
    require_dimensions,
    require_input_quantization,
    require_output_quantization,
)
from nnhal.operations.layout_rules import FollowsOrder, Rewritten, along
from nnhal.operations.operand_types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.operations.operands import (
    Inputs,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.parameters import require_indices
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal.types.orders import Order


class GatherInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    AXIS = scalar(INT32), "From -rank to rank - 1."
    INDICES = tensor({I32: 1}), "Any rank."


def prepare_gather(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with those of the indices in place of the axis."""
    require_input_quantization(op)
    dimensions = op.ranked(GatherInput.INPUT)
    axis = axis_of(op, op.integer(GatherInput.AXIS), len(dimensions))
    require_indices(op, GatherInput.INDICES, dimensions[axis])
    return (dimensions[:axis] + op.ranked(GatherInput.INDICES) + dimensions[axis + 1 :],)


def _gathered(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite GATHER with a vector of indices, which keeps the rank."""
    if len(op.ranked(GatherInput.INDICES)) != 1:
        return None
    return along(GatherInput.AXIS).rewrite(op, order)


GATHER = OperationDefinition(
    OperationType.GATHER, 3, signature(GatherInput, same()), prepare_gather, layout=FollowsOrder(_gathered)
)


class EmbeddingLookupInput(Inputs):
    LOOKUPS = tensor({I32: 1}, rank=1), "[lookups]: indices into the first axis."
    VALUES = tensor({F32: 1, I32: 3, Q8A: 3, F16: 4, Q8AS: 4}), "[rows, ...], rank 2 or more."


def prepare_embedding_lookup(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup."""
    require_input_quantization(op, EmbeddingLookupInput.VALUES)
    (lookups,), dimensions = op.ranked(EmbeddingLookupInput.LOOKUPS, 1), op.ranked(EmbeddingLookupInput.VALUES)
    if len(dimensions) == 1:
        op.refuse("the values have rank 1, expected at least 2")
    require_indices(op, EmbeddingLookupInput.LOOKUPS, dimensions[0])
    return ((lookups, *dimensions[1:]),)


def _require_rows(op: Signature) -> None:
    if len(op.inputs[EmbeddingLookupInput.VALUES].dimensions) == 1:
        op.context.refuse("the values have rank 1, expected at least 2")


EMBEDDING_LOOKUP = OperationDefinition(
    OperationType.EMBEDDING_LOOKUP,
    1,
    signature(EmbeddingLookupInput, same(EmbeddingLookupInput.VALUES), further=[_require_rows]),
    prepare_embedding_lookup,
)


class HashtableLookupInput(Inputs):
    LOOKUPS = tensor({I32: 1}, rank=1), "[lookups]: keys to find."
    KEYS = tensor({I32: 1}, rank=1), "[rows], ascending."
    VALUES = tensor({F32: 1, I32: 1, Q8A: 1}), "[rows, ...]."


class Output(IntEnum):
    RESULT = 0
    HITS = 1


def prepare_hashtable_lookup(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup, and the number of lookups."""
    require_input_quantization(op, HashtableLookupInput.VALUES, Output.RESULT)
    require_output_quantization(op, 1, 0, Output.HITS)
    (lookups,), values = op.ranked(HashtableLookupInput.LOOKUPS, 1), op.ranked(HashtableLookupInput.VALUES)
    require_dimensions(op, HashtableLookupInput.KEYS, values[:1])
    return (lookups, *values[1:]), (lookups,)


HASHTABLE_LOOKUP = OperationDefinition(
    OperationType.HASHTABLE_LOOKUP,
    1,
    signature(HashtableLookupInput, same(HashtableLookupInput.VALUES), tensor({Q8A: 1}, rank=1)),
    prepare_hashtable_lookup,
)


_LARGEST_SIGNATURE = 32  # bits


class LshProjectionInput(Inputs):
    HASH = tensor({F32: 1, F16: 3}, rank=2), "[rows, bits]: seeds."
    INPUT = tensor({F32: 1, I32: 1, Q8A: 1, F16: 3}), "[items, ...]."
    WEIGHT = same(rank=1, optional=True), "[items]."
    TYPE = scalar(INT32), "1 sparse (deprecated), 2 dense, 3 sparse."


class Projection(IntEnum):
    """The projections. SPARSE gives different rows different numbers, SPARSE_DEPRECATED does not."""

    SPARSE_DEPRECATED = 1
    DENSE = 2
    SPARSE = 3


def projection_of(op: OperationContext) -> Projection:
    code = op.integer(LshProjectionInput.TYPE)
    if not 1 <= code <= 3:
        op.refuse(f"the projection is {code}, expected 1 to 3")
    return Projection(code)


def prepare_lsh_projection(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a number for each row of bits, or for each bit."""
    (rows, bits), items = op.ranked(LshProjectionInput.HASH, 2), op.ranked(LshProjectionInput.INPUT)[0]
    if op.has(LshProjectionInput.WEIGHT):
        require_dimensions(op, LshProjectionInput.WEIGHT, (items,))
    if projection_of(op) == Projection.DENSE:
        return ((rows * bits,),)
    if bits + max(0, rows - 1).bit_length() > _LARGEST_SIGNATURE:
        op.refuse(f"{rows} rows of {bits} bits do not fit signatures of {_LARGEST_SIGNATURE} bits")
    return ((rows,),)


LSH_PROJECTION = OperationDefinition(
    OperationType.LSH_PROJECTION, 1, signature(LshProjectionInput, tensor({I32: 1}, rank=1)), prepare_lsh_projection
)
