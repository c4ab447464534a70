"""Operations that move values around: transposed, reversed, repeated, padded, between space, batch and depth.

TRANSPOSE: a tensor with its axes in another order.

REVERSE: the elements along one axis in reverse order.

TILE: a tensor repeated along its axes.

PAD and PAD_V2: a tensor with a border, of the logical zero or of a given value.

MIRROR_PAD: a tensor padded by its own reflection.

BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND: blocks of pixels become images of the batch, and back.
The larger batch is ordered by the position within the block, row by row, and then by the image of the smaller batch.

DEPTH_TO_SPACE and SPACE_TO_DEPTH: channels become blocks of pixels, and back.
The channels of the smaller image hold the block's pixels row by row, each with its channels in the larger image.

CHANNEL_SHUFFLE: an axis is divided into groups of equal size and read across the groups.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, integers_per_axis, require_input_quantization
from nnhal.operations.layout_rules import FollowsOrder, OnImages, PermutesAxes, Rewritten, along, int32, per_axis
from nnhal.operations.operand_types import BOOL, F16, F32, I32, INT32, Q8A, Q8AS, QUANT8, scalar_float
from nnhal.operations.operands import (
    Inputs,
    equal_dimensions,
    equal_quantization,
    follows,
    newer_zero_point,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.windows import Images, images_of
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal.types.orders import Order


class TransposeInput(Inputs):
    INPUT = tensor({F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    PERMUTATION = tensor({I32: 1}, rank=1, optional=True), "[rank]; the reverse order by default."


def permutation(op: OperationContext) -> tuple[int, ...]:
    """Return the input's axis for each axis of the output: the given order or, without one, the reverse order."""
    rank = len(op.ranked(TransposeInput.INPUT, (1, 4)))
    if not op.has(TransposeInput.PERMUTATION):
        return tuple(reversed(range(rank)))
    order = op.integers(TransposeInput.PERMUTATION)
    if sorted(order) != list(range(rank)):
        op.refuse(f"order {list(order)}, expected a permutation of 0 to {rank - 1}")
    return order


def prepare_transpose(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions, permuted."""
    require_input_quantization(op)
    dimensions = op.ranked(TransposeInput.INPUT, (1, 4))
    return (tuple(dimensions[axis] for axis in permutation(op)),)


TRANSPOSE = OperationDefinition(
    OperationType.TRANSPOSE, 2, signature(TransposeInput, same()), prepare_transpose, layout=PermutesAxes(permutation)
)


class ReverseInput(Inputs):
    INPUT = tensor({F16: 7, F32: 7, I32: 7, Q8A: 7, Q8AS: 7}, rank=(1, 8)), "Rank 1 to 8."
    AXIS = tensor({I32: 1}, rank=1), "[1]."


def axis_of_reversal(op: OperationContext) -> int:
    """Return the axis, which is not negative."""
    rank, axes = len(op.ranked(ReverseInput.INPUT)), op.integers(ReverseInput.AXIS)
    if len(axes) != 1 or not 0 <= axes[0] < rank:
        op.refuse(f"axes {list(axes)}, expected one axis, 0 to {rank - 1}")
    return axes[0]


def prepare_reverse(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    axis_of_reversal(op)
    return (op.ranked(ReverseInput.INPUT),)


def _reversed(op: OperationContext, order: Order) -> Rewritten:
    """Rewrite REVERSE, whose only axis is a vector."""
    return Rewritten(
        (order,),
        {ReverseInput.AXIS: int32([order.index(axis % len(order)) for axis in op.integers(ReverseInput.AXIS)])},
    )


REVERSE = OperationDefinition(
    OperationType.REVERSE,
    7,
    signature(ReverseInput, same(), further=[equal_quantization, equal_dimensions]),
    prepare_reverse,
    compares_lengths=True,
    layout=FollowsOrder(_reversed),
)


class TileInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    MULTIPLES = tensor({I32: 1}, rank=1), "[rank]."


def prepare_tile(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions times the multiples."""
    require_input_quantization(op)
    dimensions = op.ranked(TileInput.INPUT)
    multiples = integers_per_axis(op, TileInput.MULTIPLES, TileInput.INPUT)
    if min(multiples) < 0:
        op.refuse(f"multiples {list(multiples)}, expected 0 or more")
    return (tuple(d * m for d, m in zip(dimensions, multiples, strict=True)),)


TILE = OperationDefinition(
    OperationType.TILE, 3, signature(TileInput, same()), prepare_tile, layout=per_axis(TileInput.MULTIPLES)
)


def _value_type(main: int) -> OperandType:
    return INT32 if main in QUANT8 else scalar_float(main)


class PadInput(Inputs):
    """The inputs. PAD has no value."""

    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    PADDINGS = tensor({I32: 1}, rank=2), "[rank, 2]: before and after each axis."
    VALUE = follows(_value_type), "A scalar; of a quantised tensor INT32, quantised as the tensor is."


def paddings_of_pad(op: OperationContext) -> tuple[tuple[int, int], ...]:
    """Return the elements to pad before and after each axis. Raises UnknownYet."""
    rank = len(op.ranked(PadInput.INPUT, (1, 4)))
    values = op.value(PadInput.PADDINGS)
    if values.shape != (rank, 2):
        op.refuse(f"the paddings have dimensions {list(values.shape)}, expected [{rank}, 2]")
    if values.min() < 0:
        op.refuse(f"paddings {values.tolist()}, expected 0 or more")
    return tuple((int(before), int(after)) for before, after in values)


def prepare_pad(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions, each with its paddings added."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
        _require_representable_value(op)
    return (
        tuple(
            length + before + after if length or op.executing else 0
            for length, (before, after) in zip(op.ranked(PadInput.INPUT, (1, 4)), paddings_of_pad(op), strict=True)
        ),
    )


def _require_representable_value(op: OperationContext) -> None:
    if not op.is_known(PadInput.VALUE):
        return
    low, high = (0, 255) if op.main_type() == Q8A else (-128, 127)
    if not low <= op.integer(PadInput.VALUE) <= high:
        op.refuse(f"the value is {op.integer(PadInput.VALUE)}, expected {low} to {high}")


PAD = OperationDefinition(
    OperationType.PAD,
    2,
    signature(PadInput, same(rank=(1, 4)), count=2, further=[newer_zero_point]),
    prepare_pad,
    layout=per_axis(PadInput.PADDINGS),
)
PAD_V2 = OperationDefinition(
    OperationType.PAD_V2, 3, signature(PadInput, same(rank=(1, 4))), prepare_pad, layout=per_axis(PadInput.PADDINGS)
)


class MirrorPadInput(Inputs):
    INPUT = tensor({F16: 7, F32: 7, I32: 7, Q8A: 7, Q8AS: 7}), "Any rank."
    PADDINGS = tensor({I32: 1}, rank=2), "[rank, 2]: before and after each axis."
    MODE = scalar(INT32), "0 reflect, 1 symmetric, which repeats the edge."


class MirrorPadMode(IntEnum):
    """Kind of reflection: with the edge (SYMMETRIC) or without (REFLECT)."""

    REFLECT = 0
    SYMMETRIC = 1


def paddings_of_mirror_pad(op: OperationContext) -> list[tuple[int, int]]:
    """Return the elements to pad before and after each axis. Raises UnknownYet."""
    rank, values = len(op.ranked(MirrorPadInput.INPUT)), op.value(MirrorPadInput.PADDINGS)
    if values.shape != (rank, 2):
        op.refuse(f"paddings have dimensions {list(values.shape)}, expected [{rank}, 2]")
    return [(int(before), int(after)) for before, after in values]


def prepare_mirror_pad(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with the paddings added, which must not exceed the elements to reflect."""
    code = op.integer(MirrorPadInput.MODE)
    if code not in (MirrorPadMode.REFLECT, MirrorPadMode.SYMMETRIC):
        op.refuse(f"mode {code}, expected 0 (REFLECT) or 1 (SYMMETRIC)")
    result = []
    for axis, (length, pair) in enumerate(
        zip(op.ranked(MirrorPadInput.INPUT), paddings_of_mirror_pad(op), strict=True)
    ):
        is_open = not length and not op.executing
        limit = max(0, length - 1) if code == MirrorPadMode.REFLECT else length
        if min(pair) < 0 or (max(pair) > limit and not is_open):
            op.refuse(f"paddings {pair} on axis {axis}, expected 0 to {limit}")
        result.append(0 if is_open else length + sum(pair))
    return (tuple(result),)


def _equal_ranks(op: Signature) -> None:
    given = op.inputs[MirrorPadInput.INPUT]
    op.output(0, OperandType(given.type), len(given.dimensions) or None)


MIRROR_PAD = OperationDefinition(
    OperationType.MIRROR_PAD,
    7,
    signature(MirrorPadInput, same(), further=[_equal_ranks, equal_quantization]),
    prepare_mirror_pad,
    layout=per_axis(MirrorPadInput.PADDINGS),
)


class BatchToSpaceInput(Inputs):
    """The inputs of BATCH_TO_SPACE_ND."""

    INPUT = tensor({F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=4), "Images."
    BLOCK_SIZES = tensor({I32: 1}, rank=1), "[2]: height and width."
    LAYOUT = scalar(BOOL, since=3)


class SpaceToBatchInput(Inputs):
    """The inputs of SPACE_TO_BATCH_ND."""

    INPUT = tensor({F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=4), "Images."
    BLOCK_SIZES = tensor({I32: 1}, rank=1), "[2]: height and width."
    PADDINGS = tensor({I32: 1}, rank=2), "[2, 2]: before and after, of height and of width."
    LAYOUT = scalar(BOOL, since=3)


def block_of(op: OperationContext) -> tuple[int, int]:
    sizes = op.integers(SpaceToBatchInput.BLOCK_SIZES)
    if len(sizes) != 2 or min(sizes) < 1:
        op.refuse(f"block sizes {list(sizes)}, expected two of at least 1")
    return sizes[0], sizes[1]


def paddings_of_batch_space(op: OperationContext) -> tuple[int, int, int, int]:
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
    images, (top, bottom, left, right) = images_of(op, channels_first), paddings_of_batch_space(op)
    height = images.height + top + bottom if images.height else 0
    width = images.width + left + right if images.width else 0
    if height % block_height or width % block_width:
        op.refuse(f"padded images of {height} x {width}, expected multiples of {block_height} and {block_width}")
    result = Images(
        images.batch * block_height * block_width, height // block_height, width // block_width, images.channels
    )
    return (result.dimensions(channels_first),)


BATCH_TO_SPACE_ND = OperationDefinition(
    OperationType.BATCH_TO_SPACE_ND,
    2,
    signature(BatchToSpaceInput, same(rank=4), fewest=2),
    prepare_batch_to_space,
    layout=OnImages(BatchToSpaceInput.LAYOUT),
)
SPACE_TO_BATCH_ND = OperationDefinition(
    OperationType.SPACE_TO_BATCH_ND,
    2,
    signature(SpaceToBatchInput, same(rank=4), fewest=3, further=[newer_zero_point]),
    prepare_space_to_batch,
    layout=OnImages(SpaceToBatchInput.LAYOUT),
)


class DepthSpaceInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=4), "Images."
    BLOCK_SIZE = scalar(INT32), "The height and width of a block in pixels."
    LAYOUT = scalar(BOOL, since=3)


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
    channels_first, block = op.boolean(DepthSpaceInput.LAYOUT), op.integer(DepthSpaceInput.BLOCK_SIZE)
    if block < 1:
        op.refuse(f"block size {block}, expected at least 1")
    return channels_first, images_of(op, channels_first), block


_DEPTH_SPACE_SIGNATURE = signature(DepthSpaceInput, same(rank=4), fewest=2)
DEPTH_TO_SPACE = OperationDefinition(
    OperationType.DEPTH_TO_SPACE,
    1,
    _DEPTH_SPACE_SIGNATURE,
    prepare_depth_to_space,
    layout=OnImages(DepthSpaceInput.LAYOUT),
)
SPACE_TO_DEPTH = OperationDefinition(
    OperationType.SPACE_TO_DEPTH,
    1,
    _DEPTH_SPACE_SIGNATURE,
    prepare_space_to_depth,
    layout=OnImages(DepthSpaceInput.LAYOUT),
)


class ChannelShuffleInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    GROUPS = scalar(INT32), "A divisor of the axis' length."
    AXIS = scalar(INT32), "From -rank to rank - 1."


def prepare_channel_shuffle(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    require_input_quantization(op)
    dimensions, groups = op.ranked(ChannelShuffleInput.INPUT, (1, 4)), op.integer(ChannelShuffleInput.GROUPS)
    axis = axis_of(op, op.integer(ChannelShuffleInput.AXIS), len(dimensions))
    if groups < 1 or dimensions[axis] % groups:
        op.refuse(f"got {groups} groups, expected a divisor of the {dimensions[axis]} elements of axis {axis}")
    return (dimensions,)


CHANNEL_SHUFFLE = OperationDefinition(
    OperationType.CHANNEL_SHUFFLE,
    3,
    signature(ChannelShuffleInput, same()),
    prepare_channel_shuffle,
    layout=along(ChannelShuffleInput.AXIS),
)
