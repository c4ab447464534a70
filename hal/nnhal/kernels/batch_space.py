"""BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._images import channels_last, in_layout
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import BatchToSpaceInput, SpaceToBatchInput, block_of, paddings_of_batch_space


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
