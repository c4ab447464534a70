"""The windows of the HAL's operations as attributes of the flow."""

from __future__ import annotations

from nnhal.operations._window import Window


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
