"""Softmax and normalization: L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION, INSTANCE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnhal.operations.activation import SoftmaxInput
from nnhal.operations.dimensions import axis_of
from nnhal.operations.normalization import (
    InstanceNormalizationInput,
    L2NormalizationInput,
    LocalResponseNormalizationInput,
)
from nnhal_devices.cpu_acc.elements import QUANTIZED, ElementQuantization, quantization_of
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_LARGEST = np.array(255 / 256, np.float32)
"""The largest real of a quantised output."""


def l2_normalization(to: Emitter) -> None:
    """Vectors of length 1. A vector of zeros stays as it is, as in ONNX."""
    layout = to.common_layout((L2NormalizationInput.INPUT,))
    axis = axis_of(
        to.op,
        to.op.integer(L2NormalizationInput.AXIS, default=-1),
        len(to.op.ranked(L2NormalizationInput.INPUT)),
    )
    normal = to.graph.add("LpNormalization", to.real(L2NormalizationInput.INPUT, layout), axis=layout.axis(axis), p=2)
    to.keep_real(normal, layout)


def local_response_normalization(to: Emitter) -> None:
    """Over channels. ONNX's alpha applies to the mean of the squares, the HAL's to their sum.

    A radius beyond all channels means as much as one that reaches the last. ONNX Runtime takes memory for all of it.
    """
    given = to.op.ranked(LocalResponseNormalizationInput.INPUT)
    rank = len(given)
    axis = axis_of(to.op, to.op.integer(LocalResponseNormalizationInput.AXIS, default=-1), rank)
    layout = Layout.MOVED if axis == rank - 1 else Layout.GIVEN
    radius = to.op.integer(LocalResponseNormalizationInput.RADIUS)
    size = 2 * (min(radius, given[axis] - 1) if given[axis] else radius) + 1
    result = to.graph.add(
        "LRN",
        to.real(LocalResponseNormalizationInput.INPUT, layout),
        size=size,
        alpha=to.op.real(LocalResponseNormalizationInput.ALPHA) * size,
        beta=to.op.real(LocalResponseNormalizationInput.BETA),
        bias=to.op.real(LocalResponseNormalizationInput.BIAS),
    )
    to.keep_real(result, layout)


def instance_normalization(to: Emitter) -> None:
    """One gamma and one beta for all channels, which ONNX wants repeated for each."""
    layout = Layout.GIVEN if to.op.boolean(InstanceNormalizationInput.LAYOUT) else Layout.MOVED
    channels = to.op.ranked(InstanceNormalizationInput.INPUT)[1 if layout is Layout.GIVEN else 3]
    gamma, beta = (
        to.graph.constant(np.full(channels, to.op.real(index), np.float32))
        for index in (InstanceNormalizationInput.GAMMA, InstanceNormalizationInput.BETA)
    )
    epsilon = to.op.real(InstanceNormalizationInput.EPSILON)
    tensor = to.real(InstanceNormalizationInput.INPUT, layout)
    to.keep_real(to.graph.add("InstanceNormalization", tensor, gamma, beta, epsilon=epsilon), layout)


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
