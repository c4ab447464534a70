"""LSH_PROJECTION: locality-sensitive hashes of a tensor's slices along its first axis.

Each element of the hash tensor seeds one hash function, which yields one bit. The output of the dense projection is the
bits; that of the sparse projections is a number for each row of bits.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_dimensions
from nnhal.operations._types import F16, F32, I32, INT32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

_LARGEST_SIGNATURE = 32  # bits


class Input(IntEnum):
    """The inputs."""

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


def validate(op: Signature) -> None:
    """Require seeds, a tensor, weights of its slices, which may be NO_VALUE, and the projection."""
    op.count(4, names=Input)
    op.tensor(Input.HASH, {F32: 1, F16: 3}, rank=2)
    op.tensor(Input.INPUT, {F32: 1, I32: 1, Q8A: 1, F16: 3})
    op.same(Input.WEIGHT, Input.HASH, rank=1, optional=True)
    op.scalar(Input.TYPE, INT32)
    op.output(0, I32, rank=1)


def projection_of(op: OperationContext) -> Projection:
    """Return the projection."""
    code = op.integer(Input.TYPE)
    if not 1 <= code <= 3:
        op.refuse(f"the projection is {code}, expected 1 to 3")
    return Projection(code)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a number for each row of bits, or for each bit."""
    (rows, bits), items = op.ranked(Input.HASH, 2), op.ranked(Input.INPUT)[0]
    if op.has(Input.WEIGHT):
        require_dimensions(op, Input.WEIGHT, (items,))
    if projection_of(op) == Projection.DENSE:
        return ((rows * bits,),)
    if bits + max(0, rows - 1).bit_length() > _LARGEST_SIGNATURE:
        op.refuse(f"{rows} rows of {bits} bits do not fit signatures of {_LARGEST_SIGNATURE} bits")
    return ((rows,),)


LSH_PROJECTION = OperationDefinition(OperationType.LSH_PROJECTION, 1, validate, prepare)
