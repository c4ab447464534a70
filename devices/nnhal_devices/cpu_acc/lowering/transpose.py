"""TRANSPOSE and CHANNEL_SHUFFLE: the same elements in another order."""

from __future__ import annotations

from nnhal.operations import channel_shuffle as shuffling
from nnhal.operations._shape import axis_of
from nnhal.operations.transpose import Input, permutation
from nnhal_devices.cpu_acc.layout import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def transpose(to: Emitter) -> None:
    """A transposition between the two layouts of images moves nothing: the duplicate already has the result."""
    order = permutation(to.op)
    if order == TO_CHANNELS_FIRST:
        to.keep(to.kept(Input.INPUT, Layout.MOVED))
    elif order == TO_CHANNELS_LAST:
        to.keep(to.kept(Input.INPUT), Layout.MOVED)
    else:
        to.keep(to.graph.add("Transpose", to.kept(Input.INPUT), perm=order))


def channel_shuffle(to: Emitter) -> None:
    """Split the axis into groups and their members, and swap the two."""
    layout = to.common_layout((shuffling.Input.INPUT,))
    dimensions, groups = to.op.ranked(shuffling.Input.INPUT), to.op.integer(shuffling.Input.GROUPS)
    given = axis_of(to.op, to.op.integer(shuffling.Input.AXIS), len(dimensions))
    axis, rank = layout.axis(given), len(dimensions)
    lengths = [0] * rank
    for number, length in enumerate(dimensions):
        lengths[layout.axis(number)] = length
    split = [*lengths[:axis], groups, lengths[axis] // groups, *lengths[axis + 1 :]]
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    grouped = to.graph.add("Reshape", to.kept(shuffling.Input.INPUT, layout), to.graph.integers(split))
    swapped = to.graph.add("Transpose", grouped, perm=order)
    to.keep(to.graph.add("Reshape", swapped, to.graph.integers(lengths)), layout)
