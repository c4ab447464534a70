"""The accesses and the kernel of a window over rows and columns."""

from __future__ import annotations

from nnhal.operations._window import Axis, Window
from nnhal_cascade.geometry.access import AxisAccess
from nnhal_cascade.geometry.accesses import Windowed
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel
from nnhal_cascade.graph.matchers.match import Reading


def windowed(axis: Axis, length: int) -> Windowed:
    """Return the dependency along an axis of ``length`` elements of the input."""
    return Windowed(length, axis.size, axis.stride, axis.dilation, axis.before)


def read_through(window: Window, given: Shape, channels: AxisAccess) -> Reading:
    """Return the reading of an operation's first input through a window."""
    return Reading(0, windowed(window.height, given.rows), windowed(window.width, given.columns), channels)


def kernel_of(window: Window, output: Shape) -> Kernel:
    """Return a window as a kernel. A stride means nothing along an axis with a single window, and is 1 there."""
    height, width = window.height, window.width
    down = height.stride if output.rows > 1 else 1
    right = width.stride if output.columns > 1 else 1
    return Kernel(height.size, width.size, down, right, height.dilation, width.dilation)
