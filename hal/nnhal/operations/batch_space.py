"""BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND: blocks of pixels become images of the batch, and back.

The larger batch is ordered by the position within the block, row by row, and then by the image of the smaller batch.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import BOOL, F16, F32, I32, Q8A, Q8AS
from nnhal.operations._window import Images, images_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class BatchToSpaceInput(IntEnum):
    """The inputs of BATCH_TO_SPACE_ND."""

    INPUT = 0
    """Images."""
    BLOCK_SIZES = 1
    """[2]: height and width."""
    LAYOUT = 2


class SpaceToBatchInput(IntEnum):
    """The inputs of SPACE_TO_BATCH_ND."""

    INPUT = 0
    """Images."""
    BLOCK_SIZES = 1
    """[2]: height and width."""
    PADDINGS = 2
    """[2, 2]: before and after, of height and of width."""
    LAYOUT = 3


def validate_batch_to_space(op: Signature) -> None:
    """Require images and the block's height and width. The layout needs feature level 3."""
    op.count((2, 3), names=BatchToSpaceInput)
    _tensors(op)
    op.scalar(BatchToSpaceInput.LAYOUT, BOOL, since=3)


def validate_space_to_batch(op: Signature) -> None:
    """Require images, the block's height and width, and paddings of both axes. The layout needs feature level 3."""
    op.count((3, 4), names=SpaceToBatchInput)
    _tensors(op)
    op.tensor(SpaceToBatchInput.PADDINGS, {I32: 1}, rank=2)
    op.scalar(SpaceToBatchInput.LAYOUT, BOOL, since=3)
    if op.inputs[SpaceToBatchInput.INPUT].type == Q8A and op.inputs[SpaceToBatchInput.INPUT].zero_point:
        op.since(3)


def _tensors(op: Signature) -> None:
    main = op.tensor(SpaceToBatchInput.INPUT, {F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=4)
    op.tensor(SpaceToBatchInput.BLOCK_SIZES, {I32: 1}, rank=1)
    op.output(0, main, rank=4)


def block_of(op: OperationContext) -> tuple[int, int]:
    """Return the block's height and width."""
    sizes = op.integers(SpaceToBatchInput.BLOCK_SIZES)
    if len(sizes) != 2 or min(sizes) < 1:
        op.refuse(f"block sizes {list(sizes)}, expected two of at least 1")
    return sizes[0], sizes[1]


def paddings_of(op: OperationContext) -> tuple[int, int, int, int]:
    """Return how many elements to pad above, below, left and right of the images."""
    values = op.value(SpaceToBatchInput.PADDINGS)
    if values.shape != (2, 2) or values.min() < 0:
        op.refuse(f"paddings {values.tolist()}, expected two pairs of 0 or more")
    top, bottom, left, right = (int(value) for value in values.flat)
    return top, bottom, left, right


def prepare_batch_to_space(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of fewer, larger images."""
    require_input_quantization(op)
    channels_first, (block_height, block_width) = op.boolean(BatchToSpaceInput.LAYOUT), block_of(op)
    images = images_of(op, channels_first)
    if images.batch % (block_height * block_width):
        op.refuse(f"the batch is {images.batch}, expected a multiple of {block_height} * {block_width}")
    result = Images(
        images.batch // (block_height * block_width),
        images.height * block_height,
        images.width * block_width,
        images.channels,
    )
    return (result.dimensions(channels_first),)


def prepare_space_to_batch(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of more, smaller images."""
    require_input_quantization(op)
    channels_first, (block_height, block_width) = op.boolean(SpaceToBatchInput.LAYOUT), block_of(op)
    images, (top, bottom, left, right) = images_of(op, channels_first), paddings_of(op)
    height = images.height + top + bottom if images.height else 0
    width = images.width + left + right if images.width else 0
    if height % block_height or width % block_width:
        op.refuse(f"padded images of {height} x {width}, expected multiples of {block_height} and {block_width}")
    result = Images(
        images.batch * block_height * block_width, height // block_height, width // block_width, images.channels
    )
    return (result.dimensions(channels_first),)


BATCH_TO_SPACE_ND = OperationDefinition(
    OperationType.BATCH_TO_SPACE_ND, 2, validate_batch_to_space, prepare_batch_to_space
)
SPACE_TO_BATCH_ND = OperationDefinition(
    OperationType.SPACE_TO_BATCH_ND, 2, validate_space_to_batch, prepare_space_to_batch
)
