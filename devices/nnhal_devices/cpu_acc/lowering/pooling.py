"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from nnhal.operations.pooling import window_of
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.lowering._emitter import Emitter
from nnhal_devices.cpu_acc.lowering._window import image_layout, pooling_attributes

_INPUT = 0


def average_pool(to: Emitter) -> None:
    """The average without the padding, which ONNX excludes by default."""
    window = window_of(to.op)
    layout = image_layout(window)
    pooled = to.graph.add("AveragePool", to.real(_INPUT, layout), **pooling_attributes(window))
    to.keep_real(pooled, layout, window.activation)


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
