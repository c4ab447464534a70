"""L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION and INSTANCE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnhal.operations import instance_normalization as instance
from nnhal.operations import l2_normalization as l2
from nnhal.operations import local_response_normalization as local_response
from nnhal.operations._shape import axis_of
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def l2_normalization(to: Emitter) -> None:
    """Vectors of length 1. A vector of zeros stays as it is, as in ONNX."""
    layout = to.common_layout((l2.Input.INPUT,))
    axis = axis_of(to.op, to.op.integer(l2.Input.AXIS, default=-1), len(to.op.ranked(l2.Input.INPUT)))
    normal = to.graph.add("LpNormalization", to.real(l2.Input.INPUT, layout), axis=layout.axis(axis), p=2)
    to.keep_real(normal, layout)


def local_response_normalization(to: Emitter) -> None:
    """Over channels. ONNX's alpha applies to the mean of the squares, the HAL's to their sum.

    A radius beyond all channels means as much as one that reaches the last. ONNX Runtime takes memory for all of it.
    """
    given = to.op.ranked(local_response.Input.INPUT)
    rank = len(given)
    axis = axis_of(to.op, to.op.integer(local_response.Input.AXIS, default=-1), rank)
    layout = Layout.MOVED if axis == rank - 1 else Layout.GIVEN
    radius = to.op.integer(local_response.Input.RADIUS)
    size = 2 * (min(radius, given[axis] - 1) if given[axis] else radius) + 1
    result = to.graph.add(
        "LRN",
        to.real(local_response.Input.INPUT, layout),
        size=size,
        alpha=to.op.real(local_response.Input.ALPHA) * size,
        beta=to.op.real(local_response.Input.BETA),
        bias=to.op.real(local_response.Input.BIAS),
    )
    to.keep_real(result, layout)


def instance_normalization(to: Emitter) -> None:
    """One gamma and one beta for all channels, which ONNX wants repeated for each."""
    layout = Layout.GIVEN if to.op.boolean(instance.Input.LAYOUT) else Layout.MOVED
    channels = to.op.ranked(instance.Input.INPUT)[1 if layout is Layout.GIVEN else 3]
    gamma, beta = (
        to.graph.constant(np.full(channels, to.op.real(index), np.float32))
        for index in (instance.Input.GAMMA, instance.Input.BETA)
    )
    epsilon = to.op.real(instance.Input.EPSILON)
    tensor = to.real(instance.Input.INPUT, layout)
    to.keep_real(to.graph.add("InstanceNormalization", tensor, gamma, beta, epsilon=epsilon), layout)
