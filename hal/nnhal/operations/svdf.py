"""SVDF: a layer of filters over features and time.

Each filter is the product of feature weights and time weights, found by singular value decomposition.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._sizes import Sizes
from nnhal.operations._types import F16, F32, INT32
from nnhal.operations._window import activation_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """[batch, input size]."""
    FEATURE_WEIGHTS = 1
    """[filters, input size]."""
    TIME_WEIGHTS = 2
    """[filters, memory size]."""
    BIAS = 3
    """[units]."""
    STATE = 4
    """[batch, memory size * filters]."""
    RANK = 5
    """Filters for each unit."""
    ACTIVATION = 6


def validate(op: Signature) -> None:
    """Require float tensors."""
    op.count(7, 2, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, F16: 3}, rank=2)
    op.same(Input.FEATURE_WEIGHTS, Input.INPUT, rank=2)
    op.same(Input.TIME_WEIGHTS, Input.INPUT, rank=2)
    op.same(Input.BIAS, Input.INPUT, optional=True)
    op.same(Input.STATE, Input.INPUT, rank=2)
    op.scalar(Input.RANK, INT32)
    op.scalar(Input.ACTIVATION, INT32)
    op.output(0, main, rank=2)
    op.output(1, main, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return state [batch, memory size * filters] and output [batch, units]. A unit is the sum of ``rank`` filters."""
    activation_of(op, Input.ACTIVATION)
    rank = op.integer(Input.RANK)
    if rank < 1:
        op.refuse(f"rank {rank}, expected 1 or more")
    sizes = Sizes(op)
    sizes.learn(Input.INPUT, "batch", "input size")
    sizes.learn(Input.FEATURE_WEIGHTS, "filters", "input size")
    sizes.learn(Input.TIME_WEIGHTS, "filters", "memory size")
    sizes.learn(Input.STATE, "batch", "state size")
    filters, memory = sizes.of("filters", "memory size")
    if filters % rank:
        op.refuse(f"got {filters} filters, expected a multiple of {rank}, the rank")
    sizes.require("state size", filters * memory, "the product of filters and memory size")
    sizes.require("units", filters // rank, "the quotient of filters and rank")
    if op.given(Input.BIAS):
        sizes.learn(Input.BIAS, "units")
    return sizes.of("batch", "state size"), sizes.of("batch", "units")


SVDF = OperationDefinition(OperationType.SVDF, 1, validate, prepare)
