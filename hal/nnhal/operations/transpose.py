"""TRANSPOSE: a tensor with its axes in another order."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    PERMUTATION = 1
    """[rank]; the reverse order by default."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4, and the order of its axes, which may be NO_VALUE."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.tensor(Input.PERMUTATION, {I32: 1}, rank=1, optional=True)
    op.output(0, main)


def permutation(op: OperationContext) -> tuple[int, ...]:
    """Return the input's axis for each axis of the output: the given order or, without one, the reverse order."""
    rank = len(op.ranked(Input.INPUT, (1, 4)))
    if not op.has(Input.PERMUTATION):
        return tuple(reversed(range(rank)))
    order = op.integers(Input.PERMUTATION)
    if sorted(order) != list(range(rank)):
        op.refuse(f"order {list(order)}, expected a permutation of 0 to {rank - 1}")
    return order


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions, permuted."""
    require_input_quantization(op)
    dimensions = op.ranked(Input.INPUT, (1, 4))
    return (tuple(dimensions[axis] for axis in permutation(op)),)


TRANSPOSE = OperationDefinition(OperationType.TRANSPOSE, 2, validate, prepare)
