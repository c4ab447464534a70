"""CHANNEL_SHUFFLE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._shape import axis_of
from nnhal.operations.movement import ChannelShuffleInput


def channel_shuffle(op: OperationContext) -> tuple[Array, ...]:
    """The first of each group, then the second of each, and so on."""
    values, groups = op.value(ChannelShuffleInput.INPUT), op.integer(ChannelShuffleInput.GROUPS)
    shape = values.shape
    axis = axis_of(op, op.integer(ChannelShuffleInput.AXIS), len(shape))
    grouped = values.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return (grouped.swapaxes(axis, axis + 1).reshape(shape),)
