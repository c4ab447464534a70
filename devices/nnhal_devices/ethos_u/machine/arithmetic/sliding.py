"""A window that slides over a part of an axis."""

from __future__ import annotations

from typing import NamedTuple

from nnhal.operations._window import Axis, Window
from nnhal_devices.ethos_u.cascader.geometry.box import Box, Interval


class Slide(NamedTuple):
    """What the windows of some outputs see: elements of the input, and padding around them."""

    seen: Interval
    before: int
    """Elements of padding before."""
    after: int
    """Elements of padding after."""


def slide(axis: Axis, length: int, wanted: Interval) -> Slide:
    """Return what the windows of an interval of the output see of an axis of ``length`` elements."""
    start = wanted.start * axis.stride - axis.before
    stop = (wanted.stop - 1) * axis.stride - axis.before + axis.reach
    seen = Interval(min(max(start, 0), length), min(max(stop, 0), length))
    before = min(max(-start, 0), stop - start)
    return Slide(seen, before, stop - start - before - seen.length)


def under(window: Window, rows: int, columns: int, output: Box) -> tuple[Slide, Slide]:
    """Return what the windows of a box of the output see of an image."""
    return slide(window.height, rows, output.rows), slide(window.width, columns, output.columns)
