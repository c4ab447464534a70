"""DEPTH_TO_SPACE and SPACE_TO_DEPTH: channels become blocks of pixels, and back.

The channels of the smaller image hold the block's pixels row by row, each with its channels in the larger image.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import BOOL, F16, F32, INT32, Q8A, Q8AS
from nnhal.operations._window import Images, images_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Images."""
    BLOCK_SIZE = 1
    """The height and width of a block in pixels."""
    LAYOUT = 2


def validate(op: Signature) -> None:
    """Require images and one number for the block's height and width. The layout needs feature level 3."""
    op.count((2, 3), names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=4)
    op.scalar(Input.BLOCK_SIZE, INT32)
    op.scalar(Input.LAYOUT, BOOL, since=3)
    op.output(0, main, rank=4)


def prepare_depth_to_space(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of images with more pixels and fewer channels."""
    channels_first, images, block = _arguments(op)
    if images.channels % block**2:
        op.refuse(f"got {images.channels} channels, expected a multiple of {block} * {block}")
    result = Images(images.batch, images.height * block, images.width * block, images.channels // block**2)
    return (result.dimensions(channels_first),)


def prepare_space_to_depth(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of images with fewer pixels and more channels."""
    channels_first, images, block = _arguments(op)
    if images.height % block or images.width % block:
        op.refuse(f"images of {images.height} x {images.width}, expected multiples of {block}")
    result = Images(images.batch, images.height // block, images.width // block, images.channels * block**2)
    return (result.dimensions(channels_first),)


def _arguments(op: OperationContext) -> tuple[bool, Images, int]:
    require_input_quantization(op)
    channels_first, block = op.boolean(Input.LAYOUT), op.integer(Input.BLOCK_SIZE)
    if block < 1:
        op.refuse(f"block size {block}, expected at least 1")
    return channels_first, images_of(op, channels_first), block


DEPTH_TO_SPACE = OperationDefinition(OperationType.DEPTH_TO_SPACE, 1, validate, prepare_depth_to_space)
SPACE_TO_DEPTH = OperationDefinition(OperationType.SPACE_TO_DEPTH, 1, validate, prepare_space_to_depth)
