"""Operations that move values around: transposed, reversed, repeated, padded, between space, batch and depth."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.images import channels_last, in_layout
from nnhal.operations import OperationContext
from nnhal.operations.dimensions import axis_of
from nnhal.operations.movement import (
    BatchToSpaceInput,
    ChannelShuffleInput,
    DepthSpaceInput,
    MirrorPadInput,
    MirrorPadMode,
    PadInput,
    ReverseInput,
    SpaceToBatchInput,
    TileInput,
    TransposeInput,
    axis_of_reversal,
    block_of,
    paddings_of_batch_space,
    paddings_of_mirror_pad,
    paddings_of_pad,
    permutation,
)


def transpose(op: OperationContext) -> tuple[Array, ...]:
    """The axes in another order."""
    return (np.transpose(op.value(TransposeInput.INPUT), permutation(op)),)


def reverse(op: OperationContext) -> tuple[Array, ...]:
    """The elements along the axis in reverse order."""
    return (np.flip(op.value(ReverseInput.INPUT), axis_of_reversal(op)),)


def tile(op: OperationContext) -> tuple[Array, ...]:
    """The tensor repeated along its axes."""
    return (np.tile(op.value(TileInput.INPUT), op.integers(TileInput.MULTIPLES)),)


def pad(op: OperationContext) -> tuple[Array, ...]:
    """A border of the logical zero."""
    return (
        np.pad(op.value(PadInput.INPUT), paddings_of_pad(op), constant_values=op.inputs[PadInput.INPUT].zero_point),
    )


def pad_v2(op: OperationContext) -> tuple[Array, ...]:
    """A border of the given value."""
    return (np.pad(op.value(PadInput.INPUT), paddings_of_pad(op), constant_values=op.value(PadInput.VALUE)),)


def mirror_pad(op: OperationContext) -> tuple[Array, ...]:
    values, borders = op.value(MirrorPadInput.INPUT), paddings_of_mirror_pad(op)
    if op.integer(MirrorPadInput.MODE) == MirrorPadMode.REFLECT:
        return (np.pad(values, borders, mode="reflect"),)
    return (np.pad(values, borders, mode="symmetric"),)


def batch_to_space_nd(op: OperationContext) -> tuple[Array, ...]:
    """Images interleaved into larger ones."""
    channels_first, (block_height, block_width) = op.boolean(BatchToSpaceInput.LAYOUT), block_of(op)
    images = channels_last(op.value(BatchToSpaceInput.INPUT), channels_first)
    batch, height, width, channels = images.shape
    count = batch // (block_height * block_width)
    parts = images.reshape(block_height, block_width, count, height, width, channels).transpose(2, 3, 0, 4, 1, 5)
    return (in_layout(parts.reshape(count, height * block_height, width * block_width, channels), channels_first),)


def space_to_batch_nd(op: OperationContext) -> tuple[Array, ...]:
    """Padded images divided into smaller ones; the padding is the logical zero."""
    channels_first, (block_height, block_width) = op.boolean(SpaceToBatchInput.LAYOUT), block_of(op)
    top, bottom, left, right = paddings_of_batch_space(op)
    images = np.pad(
        channels_last(op.value(SpaceToBatchInput.INPUT), channels_first),
        ((0, 0), (top, bottom), (left, right), (0, 0)),
        constant_values=op.inputs[SpaceToBatchInput.INPUT].zero_point,
    )
    batch, height, width, channels = images.shape
    rows, columns = height // block_height, width // block_width
    parts = images.reshape(batch, rows, block_height, columns, block_width, channels).transpose(2, 4, 0, 1, 3, 5)
    return (in_layout(parts.reshape(batch * block_height * block_width, rows, columns, channels), channels_first),)


def depth_to_space(op: OperationContext) -> tuple[Array, ...]:
    """Channels laid out as blocks of pixels."""
    channels_first, size = op.boolean(DepthSpaceInput.LAYOUT), op.integer(DepthSpaceInput.BLOCK_SIZE)
    images = channels_last(op.value(DepthSpaceInput.INPUT), channels_first)
    batch, height, width, channels = images.shape
    depth = channels // size**2
    blocks = images.reshape(batch, height, width, size, size, depth).swapaxes(2, 3)
    return (in_layout(blocks.reshape(batch, height * size, width * size, depth), channels_first),)


def space_to_depth(op: OperationContext) -> tuple[Array, ...]:
    """Blocks of pixels laid out as channels."""
    channels_first, size = op.boolean(DepthSpaceInput.LAYOUT), op.integer(DepthSpaceInput.BLOCK_SIZE)
    images = channels_last(op.value(DepthSpaceInput.INPUT), channels_first)
    batch, height, width, channels = images.shape
    rows, columns = height // size, width // size
    blocks = images.reshape(batch, rows, size, columns, size, channels).swapaxes(2, 3)
    return (in_layout(blocks.reshape(batch, rows, columns, channels * size**2), channels_first),)


def channel_shuffle(op: OperationContext) -> tuple[Array, ...]:
    """The first of each group, then the second of each, and so on."""
    values, groups = op.value(ChannelShuffleInput.INPUT), op.integer(ChannelShuffleInput.GROUPS)
    shape = values.shape
    axis = axis_of(op, op.integer(ChannelShuffleInput.AXIS), len(shape))
    grouped = values.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return (grouped.swapaxes(axis, axis + 1).reshape(shape),)
