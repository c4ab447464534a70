"""DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND: blocks of pixels traded for other axes.

Each is a reshape, a transposition and a reshape, which ONNX Runtime does for every element type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.operations._window import Images, images_of
from nnhal.operations.movement import (
    BatchToSpaceInput,
    DepthSpaceInput,
    SpaceToBatchInput,
    block_of,
    paddings_of_batch_space,
)
from nnhal_devices.cpu_acc.elements import KEPT_TYPES, QUANTIZED, kept_zero_point
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_INPUT = 0


def depth_to_space(to: Emitter) -> None:
    """[n, b, b, c, h, w] becomes [n, c, h, b, w, b]."""
    layout, images = _images(to, to.op.boolean(DepthSpaceInput.LAYOUT))
    n, h, w, c = images.batch, images.height, images.width, images.channels
    b = to.op.integer(DepthSpaceInput.BLOCK_SIZE)
    c //= b * b
    to.keep(
        _rearrange(to, to.kept(_INPUT, layout), (n, b, b, c, h, w), (0, 3, 4, 1, 5, 2), (n, c, h * b, w * b)), layout
    )


def space_to_depth(to: Emitter) -> None:
    """[n, c, h, b, w, b] becomes [n, b, b, c, h, w]."""
    layout, images = _images(to, to.op.boolean(DepthSpaceInput.LAYOUT))
    n, h, w, c = images.batch, images.height, images.width, images.channels
    b = to.op.integer(DepthSpaceInput.BLOCK_SIZE)
    h, w = h // b, w // b
    to.keep(
        _rearrange(to, to.kept(_INPUT, layout), (n, c, h, b, w, b), (0, 3, 5, 1, 2, 4), (n, c * b * b, h, w)), layout
    )


def batch_to_space_nd(to: Emitter) -> None:
    """[y, x, n, c, h, w] becomes [n, c, h, y, w, x]."""
    layout, images = _images(to, to.op.boolean(BatchToSpaceInput.LAYOUT))
    y, x = block_of(to.op)
    n, h, w, c = images.batch // (y * x), images.height, images.width, images.channels
    to.keep(
        _rearrange(to, to.kept(_INPUT, layout), (y, x, n, c, h, w), (2, 3, 4, 0, 5, 1), (n, c, h * y, w * x)), layout
    )


def space_to_batch_nd(to: Emitter) -> None:
    """[n, c, h, y, w, x], padded with the logical zero, becomes [y, x, n, c, h, w]."""
    layout, images = _images(to, to.op.boolean(SpaceToBatchInput.LAYOUT))
    y, x = block_of(to.op)
    top, bottom, left, right = paddings_of_batch_space(to.op)
    n, c = images.batch, images.channels
    h, w = (images.height + top + bottom) // y, (images.width + left + right) // x
    tensor = to.kept(_INPUT, layout)
    if top or bottom or left or right:
        operand = to.op.inputs[_INPUT]
        zero = kept_zero_point(operand) if operand.type in QUANTIZED else 0
        fill = to.graph.constant(np.array(zero, KEPT_TYPES[operand.type]))
        tensor = to.graph.add("Pad", tensor, to.graph.integers((0, 0, top, left, 0, 0, bottom, right)), fill)
    to.keep(_rearrange(to, tensor, (n, c, h, y, w, x), (3, 5, 0, 1, 2, 4), (y * x * n, c, h, w)), layout)


def _images(to: Emitter, channels_first: bool) -> tuple[Layout, Images]:
    return Layout.GIVEN if channels_first else Layout.MOVED, images_of(to.op, channels_first)


def _rearrange(to: Emitter, tensor: str, split: Sequence[int], order: Sequence[int], joined: Sequence[int]) -> str:
    parts = to.graph.add("Reshape", tensor, to.graph.integers(split))
    return to.graph.add("Reshape", to.graph.add("Transpose", parts, perm=order), to.graph.integers(joined))
