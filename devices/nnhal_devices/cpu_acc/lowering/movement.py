"""Lowerings that keep the elements and change their dimensions or order, or pad them.

Blocks of pixels are traded for other axes by a reshape, a transposition and a reshape, which ONNX Runtime does for
every element type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.operations.dimensions import axis_of
from nnhal.operations.movement import (
    BatchToSpaceInput,
    ChannelShuffleInput,
    DepthSpaceInput,
    MirrorPadInput,
    PadInput,
    SpaceToBatchInput,
    TransposeInput,
    block_of,
    paddings_of_batch_space,
    paddings_of_mirror_pad,
    paddings_of_pad,
    permutation,
)
from nnhal.operations.shape import ExpandDimsInput, ReshapeInput, SqueezeInput
from nnhal.operations.windows import Images, images_of
from nnhal.types import Operand, OperandType
from nnhal_devices.cpu_acc.elements import KEPT_TYPES, QUANTIZED, SIGN, kept_zero_point
from nnhal_devices.cpu_acc.layout import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_INPUT = 0


def reshape(to: Emitter) -> None:
    """The shape is a constant; -1 means the same as in ONNX."""
    shape = to.graph.integers(to.op.integers(ReshapeInput.SHAPE))
    to.keep(to.graph.add("Reshape", to.kept(ReshapeInput.INPUT), shape))


def squeeze(to: Emitter) -> None:
    """Drop the given axes, or all of length 1. At least one axis is left."""
    dimensions = to.op.ranked(SqueezeInput.INPUT)
    axes = [axis for axis, length in enumerate(dimensions) if length == 1]
    if to.op.has(SqueezeInput.AXES):
        axes = sorted({axis_of(to.op, axis, len(dimensions)) for axis in to.op.integers(SqueezeInput.AXES)})
    if len(axes) == len(dimensions):
        axes = axes[1:]
    tensor = to.kept(SqueezeInput.INPUT)
    to.keep(to.graph.add("Squeeze", tensor, to.graph.integers(axes)) if axes else tensor)


def expand_dims(to: Emitter) -> None:
    """The axis is one of the output's."""
    rank = len(to.op.ranked(ExpandDimsInput.INPUT)) + 1
    axis = axis_of(to.op, to.op.integer(ExpandDimsInput.AXIS), rank)
    to.keep(to.graph.add("Unsqueeze", to.kept(ExpandDimsInput.INPUT), to.graph.integers([axis])))


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
    grouped = to.graph.add("Reshape", to.kept(ChannelShuffleInput.INPUT, layout), _shape(to, split))
    swapped = to.graph.add("Transpose", grouped, perm=order)
    to.keep(to.graph.add("Reshape", swapped, _shape(to, lengths)), layout)


def pad(to: Emitter) -> None:
    """Elements are padded as they are kept, with zero or a given value."""
    layout = to.common_layout((PadInput.INPUT,))
    operand = to.op.inputs[PadInput.INPUT]
    value = _given(to, operand) if to.op.has(PadInput.VALUE) else _zero(operand)
    fill = to.graph.constant(np.array(value, KEPT_TYPES[operand.type]))
    paddings = to.graph.integers(_in_layout(paddings_of_pad(to.op), layout))
    to.keep(to.graph.add("Pad", to.kept(PadInput.INPUT, layout), paddings, fill), layout)


def mirror_pad(to: Emitter) -> None:
    """Reflect without the edge, as in ONNX."""
    layout = to.common_layout((MirrorPadInput.INPUT,))
    paddings = to.graph.integers(_in_layout(paddings_of_mirror_pad(to.op), layout))
    to.keep(to.graph.add("Pad", to.kept(MirrorPadInput.INPUT, layout), paddings, mode="reflect"), layout)


def _zero(operand: Operand) -> float:
    return kept_zero_point(operand) if operand.type in QUANTIZED else 0.0


def _given(to: Emitter, operand: Operand) -> float:
    signed = operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    return to.op.real(PadInput.VALUE) + (int(SIGN) if signed else 0)


def _in_layout(paddings: Sequence[tuple[int, int]], layout: Layout) -> list[int]:
    """ONNX wants all paddings before, then all after, in the order of the tensor's axes."""
    moved = list(paddings)
    for axis, pair in enumerate(paddings):
        moved[layout.axis(axis)] = pair
    return [before for before, _ in moved] + [after for _, after in moved]


def depth_to_space(to: Emitter) -> None:
    """[n, b, b, c, h, w] becomes [n, c, h, b, w, b]."""
    layout, images = _images(to, to.op.boolean(DepthSpaceInput.LAYOUT))
    n, h, w, c = images.batch, images.height, images.width, images.channels
    b = to.op.integer(DepthSpaceInput.BLOCK_SIZE)
    c //= b * b
    to.keep(_blocks_into_images(to, layout, (n, b, b, c, h, w), (n, c, h * b, w * b)), layout)


def space_to_depth(to: Emitter) -> None:
    """[n, c, h, b, w, b] becomes [n, b, b, c, h, w]."""
    layout, images = _images(to, to.op.boolean(DepthSpaceInput.LAYOUT))
    n, h, w, c = images.batch, images.height, images.width, images.channels
    b = to.op.integer(DepthSpaceInput.BLOCK_SIZE)
    h, w = h // b, w // b
    tensor = to.kept(_INPUT, layout)
    to.keep(_images_into_blocks(to, tensor, (n, b, b, c, h, w), (n, c * b * b, h, w)), layout)


def batch_to_space_nd(to: Emitter) -> None:
    """[y, x, n, c, h, w] becomes [n, c, h, y, w, x]."""
    layout, images = _images(to, to.op.boolean(BatchToSpaceInput.LAYOUT))
    y, x = block_of(to.op)
    n, h, w, c = images.batch // (y * x), images.height, images.width, images.channels
    to.keep(_blocks_into_images(to, layout, (1, y, x, n * c, h, w), (n, c, h * y, w * x)), layout)


def space_to_batch_nd(to: Emitter) -> None:
    """[n, c, h, y, w, x], padded with the logical zero, becomes [y, x, n, c, h, w]."""
    layout, images = _images(to, to.op.boolean(SpaceToBatchInput.LAYOUT))
    y, x = block_of(to.op)
    top, bottom, left, right = paddings_of_batch_space(to.op)
    n, c = images.batch, images.channels
    h = (images.height + top + bottom) // y if images.height else 0
    w = (images.width + left + right) // x if images.width else 0
    tensor = to.kept(_INPUT, layout)
    if top or bottom or left or right:
        operand = to.op.inputs[_INPUT]
        zero = kept_zero_point(operand) if operand.type in QUANTIZED else 0
        fill = to.graph.constant(np.array(zero, KEPT_TYPES[operand.type]))
        tensor = to.graph.add("Pad", tensor, to.graph.integers((0, 0, top, left, 0, 0, bottom, right)), fill)
    to.keep(_images_into_blocks(to, tensor, (1, y, x, n * c, h, w), (y * x * n, c, h, w)), layout)


_Blocks = tuple[int, int, int, int, int, int]
"""The lengths of n, y, x, c, h and w: of images and blocks, their rows and columns, channels, height and width."""


def _blocks_into_images(to: Emitter, layout: Layout, lengths: _Blocks, joined: Sequence[int]) -> str:
    """[n, y, x, c, h, w] becomes [n, c, h, y, w, x], one axis after the other: ONNX Runtime moves single ones, and
    whole rows, several times as fast as two at once.
    """
    n, y, x, c, h, w = lengths
    columns = _rearrange(to, to.kept(_INPUT, layout), (n * y, x, c * h * w), (0, 2, 1), (n, y, c * h, w * x))
    rows = to.graph.add("Transpose", columns, perm=(0, 2, 1, 3))
    return to.graph.add("Reshape", rows, _shape(to, joined))


def _images_into_blocks(to: Emitter, tensor: str, lengths: _Blocks, joined: Sequence[int]) -> str:
    """[n, c, h, y, w, x] becomes [n, y, x, c, h, w], in the same way."""
    n, y, x, c, h, w = lengths
    rows = _rearrange(to, tensor, (n, c * h, y, w * x), (0, 2, 1, 3), (n * y, c * h * w, x))
    return to.graph.add("Reshape", to.graph.add("Transpose", rows, perm=(0, 2, 1)), _shape(to, joined))


def _images(to: Emitter, channels_first: bool) -> tuple[Layout, Images]:
    return Layout.GIVEN if channels_first else Layout.MOVED, images_of(to.op, channels_first)


def _rearrange(to: Emitter, tensor: str, split: Sequence[int], order: Sequence[int], joined: Sequence[int]) -> str:
    parts = to.graph.add("Reshape", tensor, _shape(to, split))
    return to.graph.add("Reshape", to.graph.add("Transpose", parts, perm=order), _shape(to, joined))


def _shape(to: Emitter, lengths: Sequence[int]) -> str:
    """The shape of a Reshape, in which one length, or product of lengths, may be 0: it is unknown."""
    return to.graph.integers([length or -1 for length in lengths])
