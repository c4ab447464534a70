"""CONV_2D, GROUPED_CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV_2D."""

from __future__ import annotations

from nnhal.operations.convolution import (
    images_out,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_grouped_conv_2d,
    window_of_transpose_conv_2d,
)
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.windows import Axis, Window, images_of
from nnhal_devices.cpu_acc.lowering._folded_width import convolve_folded, fold_of
from nnhal_devices.cpu_acc.lowering._weights import bias_of, filter_of
from nnhal_devices.cpu_acc.lowering._window import convolution_attributes, image_layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_CHANNELS_SECOND = (0, 3, 1, 2)
_LAST_FIRST = (3, 0, 1, 2)


def conv_2d(to: Emitter) -> None:
    """[output channels, height, width, input channels] becomes [output, input, height, width]."""
    window = window_of_conv_2d(to.op)
    fold = fold_of(to, window)
    if fold is not None:
        convolve_folded(to, window, fold)
    else:
        _convolve(to, window, filter_of(to, FILTER, _CHANNELS_SECOND), groups=1)


def grouped_conv_2d(to: Emitter) -> None:
    """Like ``conv_2d``, but the filter has the input channels of one group."""
    window = window_of_grouped_conv_2d(to.op)
    _convolve(to, window, filter_of(to, FILTER, _CHANNELS_SECOND), window.groups)


def depthwise_conv_2d(to: Emitter) -> None:
    """[1, height, width, output channels] becomes [output channels, 1, height, width]: one group per input channel."""
    window = window_of_depthwise_conv_2d(to.op)
    channels = to.op.dimensions(FILTER)[3]
    _convolve(to, window, filter_of(to, FILTER, _LAST_FIRST), channels // window.multiplier)


def transpose_conv_2d(to: Emitter) -> None:
    """[output channels, height, width, input channels] becomes [input, output, height, width].

    ONNX takes the size of the output as paddings and an output padding.
    """
    window, given = (
        window_of_transpose_conv_2d(to.op),
        images_of(to.op, window_of_transpose_conv_2d(to.op).channels_first),
    )
    asked, layout = images_out(to.op), image_layout(window)
    height, width = (
        _surplus(axis, length, result)
        for axis, length, result in (
            (window.height, given.height, asked.height),
            (window.width, given.width, asked.width),
        )
    )
    result = to.graph.add(
        "ConvTranspose",
        to.real(INPUT, layout),
        filter_of(to, FILTER, _LAST_FIRST),
        bias_of(to, BIAS, INPUT, FILTER),
        strides=[window.height.stride, window.width.stride],
        pads=[window.height.before, window.width.before, max(0, height), max(0, width)],
        output_padding=[max(0, -height), max(0, -width)],
    )
    to.keep_real(result, layout, window.activation)


def _surplus(axis: Axis, length: int, asked: int) -> int:
    """Return how many elements to cut off at the end of the output; a negative number is to be added."""
    return (length - 1) * axis.stride + axis.reach - axis.before - asked


def _convolve(to: Emitter, window: Window, weights: str, groups: int) -> None:
    layout = image_layout(window)
    bias = bias_of(to, BIAS, INPUT, FILTER)
    result = to.graph.add("Conv", to.real(INPUT, layout), weights, bias, **convolution_attributes(window, groups))
    to.keep_real(result, layout, window.activation)
