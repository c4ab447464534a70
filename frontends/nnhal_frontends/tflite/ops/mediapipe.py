"""Custom operators of MediaPipe, whose sources define them: https://github.com/google-ai-edge/mediapipe."""

from __future__ import annotations

import struct

from nnhal.types import FusedActivation, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._weights import bias_of, weights_of

_SAME, _VALID = 1, 2
"""TfLitePadding, which is not the schema's Padding."""


def transpose_conv_bias(b: OperatorBuilder) -> None:
    """TRANSPOSE_CONV_2D with explicit padding. Padding SAME keeps as many windows as there are pixels.

    The options are a TfLiteTransposeConvParams as C lays it out: padding, and the strides along width and height.
    """
    images, kernel, bias = range(3)
    if len(b.operator.custom) < 12:
        raise b.unsupported(f"{len(b.operator.custom)} bytes of options", "12 at least: padding and two strides")
    padding, stride_width, stride_height = struct.unpack_from("<3i", b.operator.custom)
    if padding not in (_SAME, _VALID) or min(stride_width, stride_height) < 1:
        got = f"padding {padding} and strides {stride_width} and {stride_height}"
        raise b.unsupported(got, f"padding {_SAME} (SAME) or {_VALID} (VALID), strides of 1 or more")
    weights, given = weights_of(b, images, kernel), b.shape(images)
    window = b.operand(weights.operand).dimensions
    if len(given) != 4 or len(window) != 4:
        raise b.unsupported(f"images of rank {len(given)} and a filter of rank {len(window)}", "rank 4 for both")
    paddings = [0, 0, 0, 0]
    if padding == _SAME:
        top, bottom = _around(b, given[1], window[1], stride_height)
        left, right = _around(b, given[2], window[2], stride_width)
        paddings = [left, right, top, bottom]
    inputs = [b.input(images), weights.operand, bias_of(b, images, bias, weights, window[0])]
    scalars = [*paddings, stride_width, stride_height, FusedActivation.NONE]
    b.finish(OperationType.TRANSPOSE_CONV_2D, [*inputs, *map(b.int32, scalars), b.boolean(False)])


def _around(b: OperatorBuilder, length: int, window: int, stride: int) -> tuple[int, int]:
    if not length:
        raise b.unsupported("images of unknown size with padding SAME", "known sizes")
    both = max(0, window - (length - 1) % stride - 1)
    return both // 2, both - both // 2
