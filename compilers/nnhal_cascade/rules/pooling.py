"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from nnhal.operations import OperationContext
from nnhal.operations._window import Window
from nnhal.operations.pooling import prepare, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import MAX_RANK, NpuRule, as_images, channels_last, first_objection
from nnhal_cascade.rules.limits import (
    MAX_MEAN,
    MAX_MEAN_EXTENT,
    MAX_PADDED_POOL,
    MAX_POOL_AREA,
    MAX_POOL_HEIGHT,
)
from nnhal_cascade.rules.windows import padded, paddings, strides

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


def _mean(op: OperationContext) -> Support:
    return first_objection(_mean_objections(op))


def _mean_objections(op: OperationContext) -> Iterator[Support]:
    given = as_images(op.dimensions(MeanInput.INPUT))
    missing = MAX_RANK - len(op.dimensions(MeanInput.INPUT))
    averaged = [axis + missing for axis in axes_of_mean(op)]
    elements = prod(given[axis] for axis in averaged)
    if elements > MAX_MEAN:
        got = f"a mean of {elements} elements"
        yield Unsupported("SHAPE", got, f"at most {MAX_MEAN}", "pool before, so that less remains")
    for axis, name in ((_COLUMNS, "columns"), (_CHANNELS, "channels")):
        if axis in averaged and given[axis] > MAX_MEAN_EXTENT:
            got = f"a mean over {given[axis]} {name}"
            yield Unsupported("SHAPE", got, f"at most {MAX_MEAN_EXTENT}", "pool before, so that less remains")


AVERAGE_POOL_2D = NpuRule(check=_average)
MAX_POOL_2D = NpuRule(check=_maximum)
MEAN = NpuRule((MeanInput.AXES,), _mean)
