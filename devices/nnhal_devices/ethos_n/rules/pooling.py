"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN: a few hard-wired windows, and the mean of a small image."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.operations import OperationContext
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal.operations.windows import Axis, Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import channels_last, npu_rule
from nnhal.support.rules import first_objection
from nnhal.types import FusedActivation
from nnhal_devices.ethos_n.limits import LARGEST_MEAN
from nnhal_devices.ethos_n.rules._shared import is_whole

_HEIGHT_AND_WIDTH = (1, 2)
_MAXIMUM = {2: 2, 3: 2}
_AVERAGE = {3: 1}
"""The stride of each window."""


def _maximum(op: OperationContext) -> Support:
    window = window_of(op)
    return first_objection((channels_last(window.channels_first), _wired(window, _MAXIMUM, "2 x 2 or 3 x 3")))


def _average(op: OperationContext) -> Support:
    return first_objection(_average_objections(window_of(op), op))


def _average_objections(window: Window, op: OperationContext) -> Iterator[Support]:
    yield channels_last(window.channels_first)
    if window.activation != FusedActivation.NONE:
        hint = "make the activation an operation of its own after it: the clamp comes before the pooling"
        yield Unsupported("ACTIVATION", window.activation.name, FusedActivation.NONE.name, hint)
    sides = op.dimensions(Implicit.INPUT)[1:3]
    if not is_whole(window, sides):
        yield _wired(window, _AVERAGE, f"3 x 3, or the whole of an image of up to {LARGEST_MEAN} x {LARGEST_MEAN}")
        yield _same(window)


def _wired(window: Window, strides: dict[int, int], allowed: str) -> Support:
    height, width = window.height, window.width
    if height.size != width.size or height.size not in strides:
        hint = "use several of those windows, or place it on a CPU or GPU device"
        return Unsupported("KERNEL", f"a window of {height.size} x {width.size}", allowed, hint)
    stride = strides[height.size]
    if (height.stride, width.stride) != (stride, stride):
        got = f"strides of {height.stride} x {width.stride} with a window of {height.size} x {width.size}"
        hint = f"stride such a window by {stride}, or place it on a CPU or GPU device"
        return Unsupported("STRIDE", got, f"{stride} in both directions", hint)
    return SUPPORTED


def _same(window: Window) -> Support:
    def paddings(axis: Axis) -> tuple[int, int]:
        return axis.before, axis.after

    if paddings(window.height) == paddings(window.width) == (1, 1):
        return SUPPORTED
    got = f"paddings of {paddings(window.height)} and {paddings(window.width)}"
    return Unsupported("KERNEL", got, "1 on each side (SAME)", "use padding SAME, and cut off the border afterwards")


def _mean(op: OperationContext) -> Support:
    given, axes = op.dimensions(MeanInput.INPUT), axes_of_mean(op)
    if len(given) != 4 or axes != _HEIGHT_AND_WIDTH:
        got = f"axes {list(axes)} of {len(given)}"
        hint = "reduce height and width together, and other axes on a CPU device"
        return Unsupported("KERNEL", got, "axes 1 and 2 of 4", hint)
    height, width = given[1:3]
    if max(height, width) > LARGEST_MEAN:
        hint = "pool before, so that a small image remains"
        return Unsupported("SHAPE", f"an image of {height} x {width}", f"at most {LARGEST_MEAN} x {LARGEST_MEAN}", hint)
    return SUPPORTED


AVERAGE_POOL_2D = npu_rule(check=_average)
MAX_POOL_2D = npu_rule(check=_maximum)
MEAN = npu_rule((MeanInput.AXES,), _mean)
