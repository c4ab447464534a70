"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

import numpy as np

from nnhal.operations.pooling import window_of
from nnhal.operations.windows import Window
from nnhal.types import OperandType
from nnhal_devices.cpu_acc.elements import QUANTIZED, ElementQuantization, quantization_of
from nnhal_devices.cpu_acc.lowering._window import convolution_attributes, image_layout, pooling_attributes
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_INPUT = 0


def average_pool(to: Emitter) -> None:
    """The average without the padding, which ONNX excludes by default."""
    window = window_of(to.op)
    layout = image_layout(window)
    values, attributes = to.real(_INPUT, layout), pooling_attributes(window)
    height, width, channels = (to.op.dimensions(_INPUT)[axis] for axis in _axes(window))
    whole = (height, width) == (window.height.size, window.width.size)
    if to.op.main_type() not in QUANTIZED or whole or not channels:
        pooled = to.graph.add("AveragePool", values, **attributes)
    elif any(axis.before or axis.after for axis in (window.height, window.width)):
        # What stands between DequantizeLinear and AveragePool has ONNX Runtime pool floats.
        ones = to.graph.constant(np.ones((channels, 1, 1, 1), np.float32))
        pooled = to.graph.add("AveragePool", to.graph.add("Conv", values, ones, group=channels), **attributes)
    else:
        pooled = _mean_by_convolution(to, values, window, channels)
    to.keep_real(pooled, layout, window.activation)


def _axes(window: Window) -> tuple[int, int, int]:
    """The axes of height, width and channels."""
    return (2, 3, 1) if window.channels_first else (1, 2, 3)


def _mean_by_convolution(to: Emitter, values: str, window: Window, channels: int) -> str:
    """A mean of bytes by a depthwise convolution: ONNX Runtime's pooling of bytes takes 10 to 20 times as long.

    Weights of 2, of twice as many as there are elements, leave room for a bias of half the least fraction. It rounds
    ties of unsigned bytes up, as the HAL does. Those of signed ones, which it rounds away from 0, go to even numbers.
    """
    elements = window.height.size * window.width.size
    share = np.float32(1 / (2 * elements))
    shape = (channels, 1, window.height.size, window.width.size)
    filters = to.graph.constant(np.full(shape, 2, np.int8))
    weights = to.graph.dequantize(filters, ElementQuantization(np.array(share), np.array(0, np.int8)))
    is_unsigned = to.op.main_type() == OperandType.TENSOR_QUANT8_ASYMM
    biases = to.graph.constant(np.full(channels, int(is_unsigned and elements % 2 == 0), np.int32))
    scale = quantization_of(to.op.inputs[_INPUT]).scale * share
    bias = to.graph.dequantize(biases, ElementQuantization(np.array(scale), np.array(0, np.int32)))
    return to.graph.add("Conv", values, weights, bias, **convolution_attributes(window, channels))


def max_pool(to: Emitter) -> None:
    """Compare 8-bit values as they are, since input and output are quantised alike."""
    window = window_of(to.op)
    layout = image_layout(window)
    pooled = to.graph.add("MaxPool", to.kept(_INPUT, layout), **pooling_attributes(window))
    if to.op.main_type() in QUANTIZED:
        to.keep(to.graph.clamp_kept(to.outputs[0], pooled, window.activation), layout)
    else:
        to.keep_real(pooled, layout, window.activation)


def l2_pool(to: Emitter) -> None:
    """The root of the mean of the squares."""
    window = window_of(to.op)
    layout = image_layout(window)
    values = to.real(_INPUT, layout)
    squares = to.graph.add("Mul", values, values)
    pooled = to.graph.add("AveragePool", squares, **pooling_attributes(window))
    to.keep_real(to.graph.add("Sqrt", pooled), layout, window.activation)
