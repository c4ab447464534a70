"""TRANSPOSE and CHANNEL_SHUFFLE: the same elements in another order."""

from __future__ import annotations

from nnhal.operations._shape import axis_of
from nnhal.operations.movement import ChannelShuffleInput, TransposeInput, permutation
from nnhal_devices.cpu_acc.layout import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def transpose(to: Emitter) -> None:
    """A transposition between the two layouts of images moves nothing: the duplicate already has the result."""
    order = permutation(to.op)
    if order == TO_CHANNELS_FIRST:
        to.keep(to.kept(TransposeInput.INPUT, Layout.MOVED))
    elif order == TO_CHANNELS_LAST:
        to.keep(to.kept(TransposeInput.INPUT), Layout.MOVED)
    else:
        to.keep(to.graph.add("Transpose", to.kept(TransposeInput.INPUT), perm=order))


def channel_shuffle(to: Emitter) -> None:
    """Split the axis into groups and their members, and swap the two."""
    layout = to.common_layout((ChannelShuffleInput.INPUT,))
    dimensions, groups = (
        to.op.ranked(ChannelShuffleInput.INPUT),
        to.op.integer(ChannelShuffleInput.GROUPS),
    )
    given = axis_of(to.op, to.op.integer(ChannelShuffleInput.AXIS), len(dimensions))
    axis, rank = layout.axis(given), len(dimensions)
    lengths = [0] * rank
    for number, length in enumerate(dimensions):
        lengths[layout.axis(number)] = length
    split = [*lengths[:axis], groups, lengths[axis] // groups, *lengths[axis + 1 :]]
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    grouped = to.graph.add("Reshape", to.kept(ChannelShuffleInput.INPUT, layout), to.graph.integers(split))
    swapped = to.graph.add("Transpose", grouped, perm=order)
    to.keep(to.graph.add("Reshape", swapped, to.graph.integers(lengths)), layout)
