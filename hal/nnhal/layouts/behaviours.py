"""Behaviour of each operation of the HAL under the layouts of its tensors.

What is not in a table here needs the model's order: operations of extensions, control flow, recurrent cells, operations
that give a tensor other axes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from nnhal.layouts.axis_parameters import (
    INPUT,
    Rewrite,
    Rewritten,
    along,
    element_wise,
    extremum_along,
    gathered,
    mean_over_axes,
    per_axis,
    reduce_over_axes,
    reversed_axis,
    sliced,
    sliced_in_strides,
    squeezed,
)
from nnhal.layouts.image_operations import image_behaviour
from nnhal.layouts.layout_graph import Behaviour, Follows, Keeps, Reorders
from nnhal.layouts.orders import Order
from nnhal.operations import OperationContext, UnknownYet
from nnhal.operations.movement import permutation
from nnhal.types import OperandType, OperationType

_MOVABLE = frozenset(
    {
        OperandType.TENSOR_FLOAT16,
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    }
)
"""What TRANSPOSE takes."""


class _Follower(NamedTuple):
    rewrite: Rewrite
    tensors: int = 1
    """How many tensors have the layout; they come first. If negative, how many inputs behind them have not."""


_UNARY = _Follower(element_wise)
_BINARY = _Follower(element_wise, tensors=2)
_REDUCTION = _Follower(reduce_over_axes)

_FOLLOWERS = {
    **dict.fromkeys(
        (
            OperationType.ABS,
            OperationType.CAST,
            OperationType.DEQUANTIZE,
            OperationType.ELU,
            OperationType.EXP,
            OperationType.FLOOR,
            OperationType.HARD_SWISH,
            OperationType.LOG,
            OperationType.LOGISTIC,
            OperationType.NEG,
            OperationType.QUANTIZE,
            OperationType.RELU,
            OperationType.RELU1,
            OperationType.RELU6,
            OperationType.RSQRT,
            OperationType.SIN,
            OperationType.SQRT,
            OperationType.TANH,
        ),
        _UNARY,
    ),
    **dict.fromkeys(
        (
            OperationType.ADD,
            OperationType.DIV,
            OperationType.EQUAL,
            OperationType.GREATER,
            OperationType.GREATER_EQUAL,
            OperationType.LESS,
            OperationType.LESS_EQUAL,
            OperationType.MAXIMUM,
            OperationType.MINIMUM,
            OperationType.MUL,
            OperationType.NOT_EQUAL,
            OperationType.POW,
            OperationType.PRELU,
            OperationType.SUB,
        ),
        _BINARY,
    ),
    **dict.fromkeys(
        (OperationType.REDUCE_MAX, OperationType.REDUCE_MIN, OperationType.REDUCE_PROD, OperationType.REDUCE_SUM),
        _REDUCTION,
    ),
    OperationType.ARGMAX: _Follower(extremum_along(1)),
    OperationType.ARGMIN: _Follower(extremum_along(1)),
    OperationType.CHANNEL_SHUFFLE: _Follower(along(2)),
    OperationType.CONCATENATION: _Follower(along(None), tensors=-1),
    OperationType.GATHER: _Follower(gathered),
    OperationType.L2_NORMALIZATION: _Follower(along(1, default=-1)),
    OperationType.LOCAL_RESPONSE_NORMALIZATION: _Follower(along(5, default=-1)),
    OperationType.LOG_SOFTMAX: _Follower(along(2)),
    OperationType.MEAN: _Follower(mean_over_axes),
    OperationType.MIRROR_PAD: _Follower(per_axis(1)),
    OperationType.PAD: _Follower(per_axis(1)),
    OperationType.PAD_V2: _Follower(per_axis(1)),
    OperationType.REVERSE: _Follower(reversed_axis),
    OperationType.SELECT: _Follower(element_wise, tensors=3),
    OperationType.SLICE: _Follower(sliced),
    OperationType.SOFTMAX: _Follower(along(2, default=-1)),
    OperationType.SPLIT: _Follower(along(1)),
    OperationType.SQUEEZE: _Follower(squeezed),
    OperationType.STRIDED_SLICE: _Follower(sliced_in_strides),
    OperationType.TILE: _Follower(per_axis(1)),
}
"""Operations that can compute in any order of axes."""

_FLAT = {OperationType.FULLY_CONNECTED: Keeps(flat=(INPUT,)), OperationType.RESHAPE: Keeps(flat=(INPUT,))}
"""Operations to which a tensor is a sequence of elements."""


def behaviour_of(op: OperationContext) -> Behaviour:
    images = image_behaviour(op)
    if images is not None:
        return images
    if op.type == OperationType.TRANSPOSE:
        try:
            return Reorders(permutation(op))
        except UnknownYet:
            return Keeps()
    follower = _FOLLOWERS.get(op.type)
    if follower is None:
        return _FLAT.get(op.type, Keeps())
    tensors = _tensors(op, follower)
    if not all(_brought(op, index, tensors) for index in tensors):
        return Keeps()

    def carry(order: Order) -> Sequence[Order | None] | None:
        rewritten = rewritten_for(op, order)
        return None if rewritten is None else rewritten.stores

    return Follows(tensors, carry)


def rewritten_for(op: OperationContext, order: Order) -> Rewritten | None:
    """Return an operation that follows an order, None if it cannot."""
    try:
        rewritten = _FOLLOWERS[op.type].rewrite(op, order)
    except UnknownYet:
        return None
    if rewritten is None:
        return None
    moved = [output for output, stored in zip(op.outputs, rewritten.stores, strict=True) if stored is not None]
    return rewritten if all(output.type in _MOVABLE for output in moved) else None


def _tensors(op: OperationContext, follower: _Follower) -> tuple[int, ...]:
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
