"""Convolutions, products with a matrix, and poolings: what has windows or weights."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.arrays import Array
from nnhal.operations._convolution import BIAS, FILTER, INPUT
from nnhal.operations._types import QUANT8
from nnhal.operations._window import Window, activation_of
from nnhal.operations.convolution import window_of_conv_2d, window_of_depthwise_conv_2d, window_of_grouped_conv_2d
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal_mlip.flow.graph.flow_graph import Attribute
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation


def padding_of(window: Window) -> tuple[int, int, int, int]:
    """Return the padding: top, left, bottom, right."""
    return window.height.before, window.width.before, window.height.after, window.width.after


def strides_of(window: Window) -> tuple[int, int]:
    """Return the strides of height and width."""
    return window.height.stride, window.width.stride


def dilation_of(window: Window) -> tuple[int, int]:
    """Return the dilation of height and width."""
    return window.height.dilation, window.width.dilation


def size_of(window: Window) -> tuple[int, int]:
    """Return the height and width."""
    return window.height.size, window.width.size


_OUTPUTS_FIRST = (3, 1, 2, 0)


def emit_conv_2d(op: HalOperation) -> str:
    """Add the nodes of a CONV_2D. Its filter is OHWI."""
    values, scales, _ = op.weights(FILTER)
    return _convolved(op, window_of_conv_2d(op.context), values, scales, groups=1)


def emit_grouped_conv_2d(op: HalOperation) -> str:
    """Add the nodes of a GROUPED_CONV_2D. Its filter is OHWI, with the input channels of one group."""
    values, scales, _ = op.weights(FILTER)
    window = window_of_grouped_conv_2d(op.context)
    return _convolved(op, window, values, scales, window.groups)


def emit_depthwise_conv_2d(op: HalOperation) -> str:
    """Add the nodes of a DEPTHWISE_CONV_2D: as many groups as input channels. Its filter has the outputs last."""
    values, scales, _ = op.weights(FILTER)
    filters = values.transpose(_OUTPUTS_FIRST)
    return _convolved(op, window_of_depthwise_conv_2d(op.context), filters, scales, op.context.dimensions(INPUT)[-1])


def emit_fully_connected(op: HalOperation) -> str:
    """Add the nodes of a FULLY_CONNECTED, whose input becomes rows of the weights' length."""
    values, scales, axis = op.weights(FullyConnectedInput.WEIGHTS)
    rows = (op.output.shape[0], values.shape[1])
    data = op.tensor(FullyConnectedInput.INPUT)
    given = op.context.inputs[FullyConnectedInput.INPUT]
    if op.context.dimensions(FullyConnectedInput.INPUT) != rows:
        value = op.output._replace(shape=rows, scales=(given.scale,) if op.output.scales else ())
        data = op.add(Operator.RESHAPE, [data], {"newshape": rows}, value)
    summed = op.add(Operator.DENSE, [data, op.constant("weights", values, scales, axis)])
    biased = _biased(op, summed, scales, axis=1)
    return op.activated(biased, activation_of(op.context, FullyConnectedInput.ACTIVATION))


def _convolved(op: HalOperation, window: Window, weights: Array, scales: Sequence[float], groups: int) -> str:
    attributes: dict[str, Attribute] = {
        "strides": strides_of(window),
        "padding": padding_of(window),
        "dilation": dilation_of(window),
        "groups": groups,
        "channels": weights.shape[0],
        "kernel_size": size_of(window),
        "data_layout": "NHWC",
        "kernel_layout": "OHWI",
    }
    filters = op.constant("filter", weights, scales)
    summed = op.add(Operator.CONV2D, [op.tensor(INPUT), filters], attributes)
    return op.activated(_biased(op, summed, scales, axis=3), window.activation)


def _biased(op: HalOperation, summed: str, weight_scales: Sequence[float], axis: int) -> str:
    """Add the bias. That of 8-bit values is in units of input scale x weight scale."""
    values, _, _ = op.weights(BIAS)
    given = op.context.inputs[INPUT]
    scales = [given.scale * scale for scale in weight_scales] if given.type in QUANT8 else ()
    return op.add(Operator.BIAS_ADD, [summed, op.constant("bias", values, scales)], {"axis": axis})


HEIGHT_AND_WIDTH = (1, 2)


def emit_max_pool_2d(op: HalOperation) -> str:
    """Add the nodes of a MAX_POOL_2D."""
    return _pooled(op, Operator.MAX_POOL2D, {})


def emit_average_pool_2d(op: HalOperation) -> str:
    """Add the nodes of an AVERAGE_POOL_2D, which does not count padding."""
    return _pooled(op, Operator.AVG_POOL2D, {"count_include_pad": False})


def emit_mean(op: HalOperation) -> str:
    """Add the nodes of a MEAN: a global average pool if it is over height and width of images."""
    given, axes = op.context.dimensions(MeanInput.INPUT), axes_of_mean(op.context)
    keep, data = op.context.integer(MeanInput.KEEP) > 0, op.tensor(MeanInput.INPUT)
    if len(given) != len("NHWC") or axes != HEIGHT_AND_WIDTH:
        return op.add(Operator.MEAN, [data], {"axis": axes, "keepdims": keep})
    value = op.output._replace(shape=(given[0], 1, 1, given[3]))
    pooled = op.add(Operator.GLOBAL_AVG_POOL2D, [data], {"layout": "NHWC"}, value)
    return pooled if keep else op.add(Operator.SQUEEZE, [pooled], {"axis": axes})


def _pooled(op: HalOperation, operator: Operator, more: dict[str, Attribute]) -> str:
    window = window_of(op.context)
    attributes: dict[str, Attribute] = {
        "pool_size": size_of(window),
        "strides": strides_of(window),
        "dilation": (1, 1),
        "padding": padding_of(window),
        "ceil_mode": False,
        "layout": "NHWC",
    }
    pooled = op.add(operator, [op.tensor(Implicit.INPUT)], attributes | more)
    return op.activated(pooled, window.activation)
