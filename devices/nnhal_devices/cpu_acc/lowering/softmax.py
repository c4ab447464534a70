"""SOFTMAX and LOG_SOFTMAX."""

from __future__ import annotations

import numpy as np

from nnhal.operations._shape import axis_of
from nnhal.operations.activation import SoftmaxInput
from nnhal_devices.cpu_acc.elements import QUANTIZED, ElementQuantization, quantization_of
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_LARGEST = np.array(255 / 256, np.float32)
"""The largest real of a quantised output."""


def softmax(to: Emitter) -> None:
    """Along an axis, the last one by default."""
    layout = to.common_layout((SoftmaxInput.INPUT,))
    result = to.graph.add("Softmax", _scaled(to, layout), axis=_axis(to, layout))
    if to.op.main_type() in QUANTIZED:
        # A value that rounds to 256 must become 255. ONNX Runtime's fused kernel returns 0; Min prevents the fusion.
        result = to.graph.add("Min", result, to.graph.constant(_LARGEST))
    to.keep_real(result, layout)


def log_softmax(to: Emitter) -> None:
    """Like ``softmax``, with the same inputs."""
    layout = to.common_layout((SoftmaxInput.INPUT,))
    to.keep_real(to.graph.add("LogSoftmax", _scaled(to, layout), axis=_axis(to, layout)), layout)


def _axis(to: Emitter, layout: Layout) -> int:
    axis = to.op.integer(SoftmaxInput.AXIS, default=-1)
    return layout.axis(axis_of(to.op, axis, len(to.op.ranked(SoftmaxInput.INPUT))))


def _scaled(to: Emitter, layout: Layout) -> str:
    """Scale the input by beta. For a quantised input beta becomes part of the scale, and costs nothing."""
    beta = np.array(to.op.real(SoftmaxInput.BETA), np.float32)
    if beta == 1:
        return to.real(SoftmaxInput.INPUT, layout)
    if to.op.main_type() in QUANTIZED:
        given = quantization_of(to.op.inputs[SoftmaxInput.INPUT])
        return to.graph.dequantize(
            to.kept(SoftmaxInput.INPUT, layout), ElementQuantization(given.scale * beta, given.zero_point)
        )
    return to.graph.add("Mul", to.real(SoftmaxInput.INPUT, layout), to.graph.constant(beta))
