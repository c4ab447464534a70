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
from nnhal.operations.parameters import require_indices
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal.types.orders import Order


class GatherInput(IntEnum):
    INPUT = 0
    """Any rank."""
    AXIS = 1
    """From -rank to rank - 1."""
    INDICES = 2
    """Any rank."""


def validate_gather(op: Signature) -> None:
    """Require a tensor and indices, both of any rank."""
    op.count(3, names=GatherInput)
    main = op.tensor(GatherInput.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.scalar(GatherInput.AXIS, INT32)
    op.tensor(GatherInput.INDICES, {I32: 1})
    op.output(0, main)


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


GATHER = OperationDefinition(OperationType.GATHER, 3, validate_gather, prepare_gather, layout=FollowsOrder(_gathered))


class EmbeddingLookupInput(IntEnum):
    LOOKUPS = 0
    """[lookups]: indices into the first axis."""
    VALUES = 1
    """[rows, ...], rank 2 or more."""


def validate_embedding_lookup(op: Signature) -> None:
    """Require a vector of indices and a tensor of rank 2 or more."""
    op.count(2, names=EmbeddingLookupInput)
    op.tensor(EmbeddingLookupInput.LOOKUPS, {I32: 1}, rank=1)
    main = op.tensor(EmbeddingLookupInput.VALUES, {F32: 1, I32: 3, Q8A: 3, F16: 4, Q8AS: 4})
    if len(op.inputs[EmbeddingLookupInput.VALUES].dimensions) == 1:
        op.context.refuse("the values have rank 1, expected at least 2")
    op.output(0, main)


def prepare_embedding_lookup(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup."""
    require_input_quantization(op, EmbeddingLookupInput.VALUES)
    (lookups,), dimensions = op.ranked(EmbeddingLookupInput.LOOKUPS, 1), op.ranked(EmbeddingLookupInput.VALUES)
    if len(dimensions) == 1:
        op.refuse("the values have rank 1, expected at least 2")
    require_indices(op, EmbeddingLookupInput.LOOKUPS, dimensions[0])
    return ((lookups, *dimensions[1:]),)


EMBEDDING_LOOKUP = OperationDefinition(
    OperationType.EMBEDDING_LOOKUP, 1, validate_embedding_lookup, prepare_embedding_lookup
)


class HashtableLookupInput(IntEnum):
    LOOKUPS = 0
    """[lookups]: keys to find."""
    KEYS = 1
    """[rows], ascending."""
    VALUES = 2
    """[rows, ...]."""


class Output(IntEnum):
    RESULT = 0
    HITS = 1


def validate_hashtable_lookup(op: Signature) -> None:
    """Require a vector of lookups, a vector of keys, and a tensor. The second output says which lookups were found."""
    op.count(3, outputs=2, names=HashtableLookupInput)
    op.tensor(HashtableLookupInput.LOOKUPS, {I32: 1}, rank=1)
    op.tensor(HashtableLookupInput.KEYS, {I32: 1}, rank=1)
    op.output(Output.RESULT, op.tensor(HashtableLookupInput.VALUES, {F32: 1, I32: 1, Q8A: 1}))
    op.output(Output.HITS, Q8A, rank=1)


def prepare_hashtable_lookup(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the values' dimensions with one slice for each lookup, and the number of lookups."""
    require_input_quantization(op, HashtableLookupInput.VALUES, Output.RESULT)
    require_output_quantization(op, 1, 0, Output.HITS)
    (lookups,), values = op.ranked(HashtableLookupInput.LOOKUPS, 1), op.ranked(HashtableLookupInput.VALUES)
    require_dimensions(op, HashtableLookupInput.KEYS, values[:1])
    return (lookups, *values[1:]), (lookups,)


HASHTABLE_LOOKUP = OperationDefinition(
    OperationType.HASHTABLE_LOOKUP, 1, validate_hashtable_lookup, prepare_hashtable_lookup
)


_LARGEST_SIGNATURE = 32  # bits


class LshProjectionInput(IntEnum):
    HASH = 0
    """[rows, bits]: seeds."""
    INPUT = 1
    """[items, ...]."""
    WEIGHT = 2
    """[items]."""
    TYPE = 3
    """1 sparse (deprecated), 2 dense, 3 sparse."""


class Projection(IntEnum):
    """The projections. SPARSE gives different rows different numbers, SPARSE_DEPRECATED does not."""

    SPARSE_DEPRECATED = 1
    DENSE = 2
    SPARSE = 3


def validate_lsh_projection(op: Signature) -> None:
    """Require seeds, a tensor, weights of its slices, which may be NO_VALUE, and the projection."""
    op.count(4, names=LshProjectionInput)
    op.tensor(LshProjectionInput.HASH, {F32: 1, F16: 3}, rank=2)
    op.tensor(LshProjectionInput.INPUT, {F32: 1, I32: 1, Q8A: 1, F16: 3})
    op.same(LshProjectionInput.WEIGHT, LshProjectionInput.HASH, rank=1, optional=True)
    op.scalar(LshProjectionInput.TYPE, INT32)
    op.output(0, I32, rank=1)


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


LSH_PROJECTION = OperationDefinition(OperationType.LSH_PROJECTION, 1, validate_lsh_projection, prepare_lsh_projection)
