"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV_2D and FULLY_CONNECTED: operations of the multiply-add array."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnhal.operations import OperationContext
from nnhal.operations.context import channel_quant
from nnhal.operations.convolution import (
    TransposeConv2dImplicit,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_transpose_conv_2d,
)
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.matrix import prepare_fully_connected
from nnhal.operations.operand_types import Q8C
from nnhal.operations.windows import Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import channels_last, listed, npu_rule
from nnhal.support.rules import Check, first_objection
from nnhal.types.layout import describe
from nnhal_devices.ethos_n.limits import KERNELS, LARGEST_STRIDED_KERNEL, LEAST_MULTIPLIER, MAX_DEPTH, STRIDES
from nnhal_devices.ethos_n.rules._shared import is_whole

_WEIGHTS = (FILTER, BIAS)


def multiplier(op: OperationContext, weights: int = FILTER) -> Support:
    """Refuse scales between which the accumulator cannot be requantised."""
    operand = op.inputs[weights]
    scales = channel_quant(operand).scales if operand.type == Q8C else (operand.scale,)
    data = op.inputs[1 - weights].scale
    for scale in scales:
        ratio = data * scale / op.outputs[0].scale
        if not LEAST_MULTIPLIER <= ratio < 1:
            got = f"input scale x filter scale / output scale = {ratio:.6g}"
            allowed = f"{LEAST_MULTIPLIER:.3g} to less than 1"
            hint = "calibrate again: the output's scale has to exceed input scale x filter scale"
            return Unsupported("QUANT", got, allowed, hint)
    return SUPPORTED


def _convolution(window_of: Callable[[OperationContext], Window]) -> Check:
    def check(op: OperationContext) -> Support:
        return first_objection(_objections(op, window_of(op)))

    return check


def _objections(op: OperationContext, window: Window) -> Iterator[Support]:
    yield channels_last(window.channels_first)
    yield _kernel(window)
    yield _padding(window)
    yield _strides(window)
    yield multiplier(op)


def _depthwise_objections(op: OperationContext, window: Window) -> Iterator[Support]:
    yield channels_last(window.channels_first)
    if is_whole(window, op.dimensions(INPUT)[1:3]) and _is_uniform(op):
        yield multiplier(op)
    else:
        yield from _objections(op, window)
    yield _multiplied(window, op.dimensions(INPUT)[-1])


def _is_uniform(op: OperationContext) -> bool:
    """Return whether a filter has the same weight everywhere: it takes the mean, and requantises it."""
    weights = op.value(FILTER)
    return op.inputs[FILTER].type != Q8C and bool((weights == weights.flat[0]).all())


def _kernel(window: Window) -> Support:
    sizes = window.height.size, window.width.size
    dilations = window.height.dilation, window.width.dilation
    if dilations != (1, 1):
        got = f"a dilation of {dilations[0]} x {dilations[1]}"
        return Unsupported("KERNEL", got, "dilation 1", "write the filter out with zeros between its taps")
    if all(size in KERNELS for size in sizes):
        return SUPPORTED
    fits = max(sizes) <= KERNELS[-1]
    larger = " x ".join(str(next(k for k in KERNELS if k >= size)) for size in sizes) if fits else ""
    hint = f"pad the filter with zeros to {larger}" if fits else "use several convolutions with smaller filters"
    return Unsupported("KERNEL", f"a filter of {sizes[0]} x {sizes[1]}", f"sides of {listed(KERNELS)}", hint)


def _padding(window: Window) -> Support:
    for axis in (window.height, window.width):
        if max(axis.before, axis.after) >= axis.size:
            got = f"paddings of {axis.before} and {axis.after} at a filter of {axis.size}"
            return Unsupported("KERNEL", got, "paddings smaller than the filter", "pad by PAD on another device before")
    return SUPPORTED


def _strides(window: Window) -> Support:
    strides = window.height.stride, window.width.stride
    got = f"strides of {strides[0]} x {strides[1]}"
    if strides[0] != strides[1] or strides[0] not in STRIDES:
        hint = "stride by 1 or 2 in both directions, or split it into several convolutions"
        return Unsupported("STRIDE", got, f"{listed(STRIDES)}, the same in both directions", hint)
    largest = max(window.height.size, window.width.size)
    if strides[0] > 1 and largest > LARGEST_STRIDED_KERNEL:
        hint = f"take a filter of at most {LARGEST_STRIDED_KERNEL}, or stride 1 and then pool"
        return Unsupported("STRIDE", f"{got} with a filter of {largest}", "1 for filters of that size", hint)
    return SUPPORTED


def _depthwise(op: OperationContext) -> Support:
    return first_objection(_depthwise_objections(op, window_of_depthwise_conv_2d(op)))


def _multiplied(window: Window, channels: int) -> Support:
    if window.multiplier == 1 or channels == 1:
        return SUPPORTED
    got = f"a depth multiplier of {window.multiplier} on {channels} channels"
    return Unsupported("SHAPE", got, "1, or images of one channel", "use as many convolutions, and concatenate")


def _fully_connected(op: OperationContext) -> Support:
    return first_objection((_rows(op), multiplier(op)))


def _rows(op: OperationContext) -> Support:
    rows, size = prepare_fully_connected(op)[0][0], op.dimensions(FILTER)[-1]
    given = describe(op.dimensions(INPUT))
    if rows != 1:
        hint = "run its rows one after the other, or make it a 1 x 1 convolution"
        return Unsupported("SHAPE", f"{given} as {rows} rows of {size}", "one row (batch 1)", hint)
    if size > MAX_DEPTH:
        got = f"{given} as a row of {size}"
        return Unsupported("SHAPE", got, f"at most {MAX_DEPTH}", "split the weights along the row, and add the results")
    return SUPPORTED


CONV_2D = npu_rule(_WEIGHTS, _convolution(window_of_conv_2d))
DEPTHWISE_CONV_2D = npu_rule(_WEIGHTS, _depthwise)
FULLY_CONNECTED = npu_rule(_WEIGHTS, _fully_connected)
TRANSPOSE_CONV_2D = npu_rule(
    (*_WEIGHTS, TransposeConv2dImplicit.OUTPUT_SHAPE), _convolution(window_of_transpose_conv_2d)
)
