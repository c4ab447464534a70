"""Windows over rows and columns: convolutions, poolings and MEAN; and FULLY_CONNECTED."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.convolution import (
    TransposeConv2dImplicit,
    prepare_conv_2d,
    prepare_transpose_conv_2d,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_transpose_conv_2d,
)
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.pooling import prepare, window_of
from nnhal.operations.reduction import MeanInput, ReduceInput, axes_of_mean, axes_of_reduce
from nnhal.operations.windows import Axis, Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import MAX_RANK, as_images, channels_last, listed, npu_rule
from nnhal.support.rules import Check, first_objection
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_cascade.rules.limits import (
    MAX_FILTER_AREA,
    MAX_FILTER_HEIGHT,
    MAX_FILTER_SUM,
    MAX_MEAN,
    MAX_MEAN_EXTENT,
    MAX_PADDED_POOL,
    MAX_POOL_AREA,
    MAX_POOL_HEIGHT,
    STRIDES,
    TRANSPOSE_STRIDES,
)


def strides(window: Window, outputs: tuple[int, int]) -> Support:
    """Refuse strides beyond the NPU's, except along an axis of ``outputs`` on which there is only one window.

    Without padding and dilation there may be any: they are shorter ones over an image whose columns are channels.
    """
    given = window.height.stride, window.width.stride
    plain = not any(padded(axis) or axis.dilation > 1 for axis in (window.height, window.width))
    if plain or all(stride in STRIDES or made == 1 for stride, made in zip(given, outputs, strict=True)):
        return SUPPORTED
    allowed = f"{listed(STRIDES)} in each direction, one window along the axis, or no padding and dilation"
    return Unsupported("STRIDE", f"strides of {given[0]} x {given[1]}", allowed, "stride by less, and pool afterwards")


def paddings(window: Window) -> Support:
    """Refuse paddings that no tap of the window leaves."""
    for axis in (window.height, window.width):
        if max(axis.before, axis.after) >= axis.reach:
            got = f"paddings of {axis.before} and {axis.after} at a window of {axis.reach}"
            return Unsupported("KERNEL", got, "paddings smaller than the window", "pad by PAD before")
    return SUPPORTED


def padded(axis: Axis) -> bool:
    """Return whether a window has padding along an axis."""
    return bool(axis.before or axis.after)


_WEIGHTS = (FILTER, BIAS)
_LARGEST_WEIGHT = 255
"""The largest magnitude of an 8-bit weight without its zero point."""


def _checked(objections: Callable[[OperationContext], Iterator[Support]]) -> Check:
    return lambda op: first_objection(objections(op))


def _conv_2d(op: OperationContext) -> Iterator[Support]:
    window = window_of_conv_2d(op)
    yield channels_last(window.channels_first)
    yield from _filter(op, window, output_axis=0)
    yield strides(window, _sides(prepare_conv_2d(op)[0]))


def _depthwise_conv_2d(op: OperationContext) -> Iterator[Support]:
    window = window_of_depthwise_conv_2d(op)
    yield channels_last(window.channels_first)
    yield from _filter(op, window, output_axis=3)
    yield _small_strides(window)
    yield _multiplied(window, op.dimensions(INPUT)[-1])


def _transpose_conv_2d(op: OperationContext) -> Iterator[Support]:
    window = window_of_transpose_conv_2d(op)
    yield channels_last(window.channels_first)
    yield from _filter(op, window, output_axis=0)
    yield _transpose_strides(op, window)
    yield _transpose_size(op, window)


def _filter(op: OperationContext, window: Window, output_axis: int) -> Iterator[Support]:
    yield _reach(window)
    yield paddings(window)
    yield _magnitude(op, output_axis)


def _reach(window: Window) -> Support:
    height, width = window.height.reach, window.width.reach
    if height <= MAX_FILTER_HEIGHT and height * width <= MAX_FILTER_AREA:
        return SUPPORTED
    allowed = f"at most {MAX_FILTER_HEIGHT} rows and {MAX_FILTER_AREA} elements"
    hint = "use several convolutions with smaller filters or dilations"
    return Unsupported("KERNEL", f"a filter that covers {height} x {width}", allowed, hint)


def _magnitude(op: OperationContext, output_axis: int) -> Support:
    weights = op.value(FILTER)
    if weights.size // weights.shape[output_axis] * _LARGEST_WEIGHT <= MAX_FILTER_SUM:
        return SUPPORTED
    others = tuple(axis for axis in range(weights.ndim) if axis != output_axis)
    sums = np.abs(weights.astype(np.int64) - op.inputs[FILTER].zero_point).sum(axis=others)
    largest = int(sums.max())
    if largest <= MAX_FILTER_SUM:
        return SUPPORTED
    hint = "split the filter along its input channels, and add the results"
    return Unsupported("KERNEL", f"a filter whose magnitudes add up to {largest}", f"at most {MAX_FILTER_SUM}", hint)


def _small_strides(window: Window) -> Support:
    given = window.height.stride, window.width.stride
    if all(stride in STRIDES for stride in given):
        return SUPPORTED
    got = f"strides of {given[0]} x {given[1]}"
    return Unsupported("STRIDE", got, f"{listed(STRIDES)} in each direction", "stride by less, and pool afterwards")


def _multiplied(window: Window, channels: int) -> Support:
    if window.multiplier == 1 or channels == 1:
        return SUPPORTED
    got = f"a depth multiplier of {window.multiplier} on {channels} channels"
    return Unsupported("SHAPE", got, "1, or images of one channel", "use as many convolutions, and concatenate")


def _transpose_strides(op: OperationContext, window: Window) -> Support:
    given = window.height.stride, window.width.stride
    one_row = given == (1, 2) and op.dimensions(INPUT)[1] == window.height.size == 1
    if one_row or (given[0] == given[1] and given[0] in TRANSPOSE_STRIDES):
        return SUPPORTED
    allowed = f"{listed(TRANSPOSE_STRIDES)}, the same in both directions"
    return Unsupported("STRIDE", f"strides of {given[0]} x {given[1]}", allowed, "use several of stride 2")


def _transpose_size(op: OperationContext, window: Window) -> Support:
    given, made = _sides(op.dimensions(INPUT)), _sides(prepare_transpose_conv_2d(op)[0])
    axes = window.height, window.width
    whole = tuple(length * axis.stride for length, axis in zip(given, axes, strict=True))
    valid = tuple(size + max(0, axis.size - axis.stride) for size, axis in zip(whole, axes, strict=True))
    if made in (whole, valid):
        return SUPPORTED
    got = f"{given[0]} x {given[1]} to {made[0]} x {made[1]}"
    allowed = f"an output of {whole[0]} x {whole[1]} (SAME) or {valid[0]} x {valid[1]} (VALID)"
    return Unsupported("SHAPE", got, allowed, "use padding SAME or VALID, and cut off the border afterwards")


def _sides(dimensions: Dimensions) -> tuple[int, int]:
    """The height and width of an image with its channels last."""
    return dimensions[1], dimensions[2]


CONV_2D = npu_rule(_WEIGHTS, _checked(_conv_2d))
DEPTHWISE_CONV_2D = npu_rule(_WEIGHTS, _checked(_depthwise_conv_2d))
FULLY_CONNECTED = npu_rule(_WEIGHTS)
TRANSPOSE_CONV_2D = npu_rule((*_WEIGHTS, TransposeConv2dImplicit.OUTPUT_SHAPE), _checked(_transpose_conv_2d))


_SMALLER = "use several poolings with smaller windows"
_BATCH, _, _COLUMNS, _CHANNELS = range(MAX_RANK)


def _maximum(op: OperationContext) -> Support:
    window = window_of(op)
    return first_objection(_objections(op, window))


def _average(op: OperationContext) -> Support:
    window = window_of(op)
    return first_objection((*_objections(op, window), _padded_average(window)))


def _objections(op: OperationContext, window: Window) -> Iterator[Support]:
    yield channels_last(window.channels_first)
    if window.channels_first:
        return
    _, height, width, _ = prepare(op)[0]
    yield _size(window)
    yield paddings(window)
    yield strides(window, (height, width))


def _size(window: Window) -> Support:
    height, width = window.height.size, window.width.size
    if height <= MAX_POOL_HEIGHT and height * width <= MAX_POOL_AREA:
        return SUPPORTED
    allowed = f"at most {MAX_POOL_HEIGHT} rows and {MAX_POOL_AREA} elements"
    return Unsupported("KERNEL", f"a window of {height} x {width}", allowed, _SMALLER)


def _padded_average(window: Window) -> Support:
    height, width = window.height, window.width
    if not (padded(height) or padded(width)) or max(height.size, width.size) <= MAX_PADDED_POOL:
        return SUPPORTED
    got = f"an average over {height.size} x {width.size} with padding"
    return Unsupported("KERNEL", got, f"sides of at most {MAX_PADDED_POOL} with padding, larger ones without", _SMALLER)


def reduction(op: OperationContext) -> Support:
    return first_objection(_reduction_objections(op))


def _reduction_objections(op: OperationContext) -> Iterator[Support]:
    given = as_images(op.dimensions(MeanInput.INPUT))
    missing = MAX_RANK - len(op.dimensions(MeanInput.INPUT))
    axes = axes_of_mean(op) if op.type == OperationType.MEAN else axes_of_reduce(op)
    averaged = [axis + missing for axis in axes]
    elements = prod(given[axis] for axis in averaged)
    if elements > MAX_MEAN:
        got = f"a mean of {elements} elements"
        yield Unsupported("SHAPE", got, f"at most {MAX_MEAN}", "pool before, so that less remains")
    for axis, name in ((_COLUMNS, "columns"), (_CHANNELS, "channels")):
        if axis in averaged and given[axis] > MAX_MEAN_EXTENT:
            got = f"a mean over {given[axis]} {name}"
            yield Unsupported("SHAPE", got, f"at most {MAX_MEAN_EXTENT}", "pool before, so that less remains")


AVERAGE_POOL_2D = npu_rule(check=_average)
MAX_POOL_2D = npu_rule(check=_maximum)
EXTREMUM = npu_rule((ReduceInput.AXES,), reduction)
MEAN = npu_rule((MeanInput.AXES,), reduction)
