"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from nnhal.operations._shape import axis_of
from nnhal.operations.softmax import Input
from nnhal_devices.cpu_acc.elements import QUANTIZED, Quantization, quantization_of
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_LARGEST = np.array(255 / 256, np.float32)
"""The largest real of a quantised output."""


def softmax(to: Emitter) -> None:
    """Beta scales the input: where that is quantised it becomes part of the scale, and costs nothing."""
    layout = to.common_layout((Input.INPUT,))
    beta = np.array(to.op.real(Input.BETA), np.float32)
    axis = axis_of(to.op, to.op.integer(Input.AXIS, default=-1), len(to.op.ranked(Input.INPUT)))
    if beta == 1:
        scaled = to.real(Input.INPUT, layout)
    elif to.op.main_type() in QUANTIZED:
        given = quantization_of(to.op.inputs[Input.INPUT])
        scaled = to.graph.dequantize(to.kept(Input.INPUT, layout), Quantization(given.scale * beta, given.zero_point))
    else:
        scaled = to.graph.add("Mul", to.real(Input.INPUT, layout), to.graph.constant(beta))
    result = to.graph.add("Softmax", scaled, axis=layout.axis(axis))
    if to.op.main_type() in QUANTIZED:
        # What rounds to 256 must become 255. ONNX Runtime's fused kernel makes it 0, so this also keeps it from fusing.
        result = to.graph.add("Min", result, to.graph.constant(_LARGEST))
    to.keep_real(result, layout)
