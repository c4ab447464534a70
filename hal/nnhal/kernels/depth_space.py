"""DEPTH_TO_SPACE and SPACE_TO_DEPTH."""

from __future__ import annotations

from nnhal.kernels._images import channels_last, in_layout
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import DepthSpaceInput


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
