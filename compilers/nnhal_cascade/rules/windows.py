"""Limits of windows that convolutions and poolings share."""

from __future__ import annotations

from nnhal.operations._window import Axis, Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import listed
from nnhal_cascade.rules.limits import STRIDES


def strides(window: Window, outputs: tuple[int, int]) -> Support:
    """Refuse strides beyond the NPU's, except along an axis of ``outputs`` on which there is only one window."""
    given = window.height.stride, window.width.stride
    if all(stride in STRIDES or made == 1 for stride, made in zip(given, outputs, strict=True)):
        return SUPPORTED
    allowed = f"{listed(STRIDES)} in each direction, or one window along the axis"
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
