"""CONV_2D and DEPTHWISE_CONV_2D."""

from __future__ import annotations

from nnhal.operations import conv_2d as conv
from nnhal.operations import depthwise_conv_2d as depthwise
from nnhal.operations._convolution import BIAS, FILTER, INPUT
from nnhal.operations._window import Window
from nnhal_devices.cpu_acc.lowering._emitter import Emitter
from nnhal_devices.cpu_acc.lowering._weights import bias_of, filter_of
from nnhal_devices.cpu_acc.lowering._window import convolution_attributes, image_layout

_OUTPUT_CHANNELS_FIRST = (0, 3, 1, 2)
_DEPTHWISE_TO_ONNX = (3, 0, 1, 2)


def conv_2d(to: Emitter) -> None:
    """[output channels, height, width, input channels] becomes [output, input, height, width]."""
    _convolve(to, conv.window_of(to.op), filter_of(to, FILTER, _OUTPUT_CHANNELS_FIRST), groups=1)


def depthwise_conv_2d(to: Emitter) -> None:
    """[1, height, width, output channels] becomes [output channels, 1, height, width]: one group per input channel."""
    window = depthwise.window_of(to.op)
    channels = to.op.dimensions(FILTER)[3]
    _convolve(to, window, filter_of(to, FILTER, _DEPTHWISE_TO_ONNX), channels // window.multiplier)


def _convolve(to: Emitter, window: Window, weights: str, groups: int) -> None:
    layout = image_layout(window)
    bias = bias_of(to, BIAS, INPUT, FILTER)
    result = to.graph.add("Conv", to.real(INPUT, layout), weights, bias, **convolution_attributes(window, groups))
    to.keep_real(result, layout, window.activation)
