"""Convolutions, products with a matrix, poolings and resizing: what has windows, weights or pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels.resize import nearest
from nnhal.operations import OperationContext
from nnhal.operations.convolution import (
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_grouped_conv_2d,
    window_of_transpose_conv_2d,
)
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.operand_types import QUANT8
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, ReduceInput, axes_of_mean, axes_of_reduce
from nnhal.operations.resize import ResizeInput, prepare_resize, spatial_axes
from nnhal.operations.windows import Window, activation_of
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal_mlip.flow.graph.flow_graph import Attribute
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.limits import MAX_BATCH
from nnhal_mlip.importing.hal_operation import HalOperation


def padding_of(window: Window) -> tuple[int, int, int, int]:
    """Return the padding: top, left, bottom, right."""
    return window.height.before, window.width.before, window.height.after, window.width.after


def strides_of(window: Window) -> tuple[int, int]:
    return window.height.stride, window.width.stride


def dilation_of(window: Window) -> tuple[int, int]:
    return window.height.dilation, window.width.dilation


def size_of(window: Window) -> tuple[int, int]:
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
    filters, window = values.transpose(_OUTPUTS_FIRST), window_of_depthwise_conv_2d(op.context)
    groups = op.context.dimensions(INPUT)[_layout(window).index("C")]
    return _convolved(op, window, filters, scales, groups)


def emit_transpose_conv_2d(op: HalOperation) -> str:
    """Add the nodes of a TRANSPOSE_CONV_2D. Its filter is OHWI; its padding is cut from the result."""
    values, scales, _ = op.weights(FILTER)
    window = window_of_transpose_conv_2d(op.context)
    layout = _layout(window)
    more = [
        op.output.shape[layout.index(letter)]
        - ((op.context.dimensions(INPUT)[layout.index(letter)] - 1) * axis.stride + axis.reach)
        + axis.before
        + axis.after
        for letter, axis in (("H", window.height), ("W", window.width))
    ]
    attributes: dict[str, Attribute] = {"output_padding": (more[0], more[1])}
    return _convolved(op, window, values, scales, 1, Operator.CONV2D_TRANSPOSE, attributes)


def emit_fully_connected(op: HalOperation) -> str:
    """Add the nodes of a FULLY_CONNECTED, whose input becomes rows of the weights' length: many rows are one batch."""
    values, scales, axis = op.weights(FullyConnectedInput.WEIGHTS)
    rows: tuple[int, ...] = (op.output.shape[0], values.shape[1])
    many = op.beyond and rows[0] > MAX_BATCH
    rows = (1, *rows) if many else rows
    made = op.output._replace(shape=(*rows[:-1], values.shape[0]))
    data = op.tensor(FullyConnectedInput.INPUT)
    given = op.context.inputs[FullyConnectedInput.INPUT]
    if op.context.dimensions(FullyConnectedInput.INPUT) != rows:
        value = op.output._replace(shape=rows, scales=(given.scale,) if op.output.scales else ())
        data = op.add(Operator.RESHAPE, [data], {"newshape": rows}, value)
    summed = op.add(Operator.DENSE, [data, op.constant("weights", values, scales, axis)], value=made)
    biased = _biased(op, summed, scales, len(rows) - 1)
    result = op.activated(biased, activation_of(op.context, FullyConnectedInput.ACTIVATION), made)
    return op.add(Operator.RESHAPE, [result], {"newshape": op.output.shape}) if many else result


def _layout(window: Window) -> str:
    return "NCHW" if window.channels_first else "NHWC"


def _convolved(
    op: HalOperation,
    window: Window,
    weights: Array,
    scales: Sequence[float],
    groups: int,
    operator: Operator = Operator.CONV2D,
    more: Mapping[str, Attribute] = MappingProxyType({}),
) -> str:
    layout = _layout(window)
    attributes: dict[str, Attribute] = {
        "strides": strides_of(window),
        "padding": padding_of(window),
        "dilation": dilation_of(window),
        "groups": groups,
        "channels": weights.shape[0],
        "kernel_size": size_of(window),
        "data_layout": layout,
        "kernel_layout": "OHWI",
        **more,
    }
    filters = op.constant("filter", weights, scales)
    summed = op.add(operator, [op.tensor(INPUT), filters], attributes)
    return op.activated(_biased(op, summed, scales, layout.index("C")), window.activation)


def _biased(op: HalOperation, summed: str, weight_scales: Sequence[float], axis: int) -> str:
    """Add the bias, unless it is zeros. That of 8-bit values is in units of input scale x weight scale."""
    values, _, _ = op.weights(BIAS)
    if not values.any():
        return summed
    given = op.context.inputs[INPUT]
    scales = [given.scale * scale for scale in weight_scales] if given.type in QUANT8 else ()
    bias = op.constant("bias", values, scales)
    return op.add(Operator.BIAS_ADD, [summed, bias], {"axis": axis}, op.builder.values[summed])


_IMAGES: Mapping[tuple[int, ...], str] = {(1, 2): "NHWC", (2, 3): "NCHW"}
"""The layouts of images, by the axes of height and width."""


def emit_max_pool_2d(op: HalOperation) -> str:
    """Add the nodes of a MAX_POOL_2D."""
    return _pooled(op, Operator.MAX_POOL2D, {})


def emit_average_pool_2d(op: HalOperation) -> str:
    """Add the nodes of an AVERAGE_POOL_2D, which does not count padding."""
    return _pooled(op, Operator.AVG_POOL2D, {"count_include_pad": False})


def emit_mean(op: HalOperation) -> str:
    """Add the nodes of a MEAN: a global average pool if it is over height and width of images."""
    axes, keep = axes_of_mean(op.context), op.context.integer(MeanInput.KEEP) > 0
    if _layout_of_reduced(op.context, axes) is None:
        return op.add(Operator.MEAN, [op.tensor(MeanInput.INPUT)], {"axis": axes, "keepdims": keep})
    return _reduced(op, Operator.GLOBAL_AVG_POOL2D, axes, keep)


def keeps_an_axis(op: OperationContext) -> Support:
    """Check that a mean leaves an axis: without any the HAL's result has rank 1, and the flow's rank 0."""
    rank = len(op.dimensions(MeanInput.INPUT))
    if op.integer(MeanInput.KEEP) > 0 or len(axes_of_mean(op)) < rank:
        return SUPPORTED
    return Unsupported("NO_IMPL", f"a mean over all axes of rank {rank}", "axes that are kept, or fewer axes")


def emit_reduce_max(op: HalOperation) -> str:
    """Add the nodes of a REDUCE_MAX over height and width of images: a global max pool."""
    keep = op.context.boolean(ReduceInput.KEEP_DIMS)
    return _reduced(op, Operator.GLOBAL_MAX_POOL2D, axes_of_reduce(op.context), keep)


def over_images(op: OperationContext) -> Support:
    axes = axes_of_reduce(op)
    if _layout_of_reduced(op, axes) is not None:
        return SUPPORTED
    got = f"axes {list(axes)} of rank {len(op.dimensions(ReduceInput.INPUT))}"
    return Unsupported("NO_IMPL", got, "height and width of rank 4: axes 1 and 2, or 2 and 3")


def _layout_of_reduced(op: OperationContext, axes: tuple[int, ...]) -> str | None:
    return _IMAGES.get(axes) if len(op.dimensions(0)) == len("NHWC") else None


def _reduced(op: HalOperation, operator: Operator, axes: tuple[int, ...], keep: bool) -> str:
    shape = tuple(1 if axis in axes else length for axis, length in enumerate(op.context.dimensions(0)))
    pooled = op.add(operator, [op.tensor(0)], {"layout": _IMAGES[axes]}, op.output._replace(shape=shape))
    return pooled if keep else op.add(Operator.SQUEEZE, [pooled], {"axis": axes})


def emit_resize_nearest(op: HalOperation) -> str:
    """Add the node of a RESIZE_NEAREST_NEIGHBOR that has each pixel several times."""
    axes, shape = spatial_axes(op.context), op.context.dimensions(ResizeInput.INPUT)
    height, width = (op.output.shape[axis] // shape[axis] for axis in axes)
    attributes: dict[str, Attribute] = {"scale_h": height, "scale_w": width, "layout": _IMAGES[axes]}
    return op.add(Operator.UPSAMPLING, [op.tensor(ResizeInput.INPUT)], attributes)


def whole_times(op: OperationContext) -> Support:
    """Refuse images whose pixels are not there equally often."""
    (made,) = prepare_resize(op)
    shape = op.dimensions(ResizeInput.INPUT)
    for axis in spatial_axes(op):
        times = made[axis] // shape[axis]
        if not np.array_equal(nearest(op, shape[axis], made[axis]), np.arange(times * shape[axis]) // max(1, times)):
            got = f"{shape[axis]} pixels of axis {axis} resized to {made[axis]}"
            return Unsupported("NO_IMPL", got, "each pixel an equal number of times")
    return SUPPORTED


def _pooled(op: HalOperation, operator: Operator, more: dict[str, Attribute]) -> str:
    window = window_of(op.context)
    attributes: dict[str, Attribute] = {
        "pool_size": size_of(window),
        "strides": strides_of(window),
        "dilation": (1, 1),
        "padding": padding_of(window),
        "ceil_mode": False,
        "layout": _layout(window),
    }
    pooled = op.add(operator, [op.tensor(Implicit.INPUT)], attributes | more)
    return op.activated(pooled, window.activation)
