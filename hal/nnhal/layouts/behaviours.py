"""Behaviour of each operation of the HAL under the layouts of its tensors.

An operation whose definition has no rule for layouts needs the model's order: operations of extensions, control flow,
recurrent cells, operations that give a tensor other axes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nnhal.layouts.image_operations import image_behaviour
from nnhal.layouts.layout_graph import Behaviour, Follows, Keeps, Reorders
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.operations.layout_rules import FollowsOrder, OnImages, PermutesAxes, ReadsFlat, Rewritten
from nnhal.types import OperandType
from nnhal.types.orders import Order

_MOVABLE = frozenset(
    {
        OperandType.TENSOR_FLOAT16,
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    }
)
"""What TRANSPOSE takes."""


def behaviour_of(op: OperationContext) -> Behaviour:
    rule = DEFINITIONS[op.type].layout if op.type in DEFINITIONS else None
    if isinstance(rule, OnImages):
        return image_behaviour(op, rule)
    if isinstance(rule, PermutesAxes):
        try:
            return Reorders(rule.permutation(op))
        except UnknownYet:
            return Keeps()
    if isinstance(rule, ReadsFlat):
        return Keeps(flat=(0,))
    if rule is None:
        return Keeps()
    tensors = _tensors(op, rule)
    if not all(_brought(op, index, tensors) for index in tensors):
        return Keeps()

    def carry(order: Order) -> Sequence[Order | None] | None:
        rewritten = rewritten_for(op, order)
        return None if rewritten is None else rewritten.stores

    return Follows(tensors, carry)


def rewritten_for(op: OperationContext, order: Order) -> Rewritten | None:
    """Return an operation that follows an order, None if it cannot."""
    rule = DEFINITIONS[op.type].layout
    try:
        rewritten = rule.rewrite(op, order) if isinstance(rule, FollowsOrder) else None
    except UnknownYet:
        return None
    if rewritten is None:
        return None
    moved = [output for output, stored in zip(op.outputs, rewritten.stores, strict=True) if stored is not None]
    return rewritten if all(output.type in _MOVABLE for output in moved) else None


def _tensors(op: OperationContext, follower: FollowsOrder) -> tuple[int, ...]:
    count = follower.tensors if follower.tensors > 0 else len(op.inputs) + follower.tensors
    return tuple(range(count))


def _brought(op: OperationContext, index: int, tensors: Collection[int]) -> bool:
    """Return whether a tensor can be brought to any order: it is a constant, or there are operations that do it."""
    dimensions = op.dimensions(index)
    if op.inputs[index].type == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return False
    if op.is_known(index):
        return True
    rank = max(len(op.dimensions(other)) for other in tensors)
    return op.inputs[index].type in _MOVABLE and (len(dimensions) == rank or 0 not in dimensions)
