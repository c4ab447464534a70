"""The positions of a window along an axis."""

from __future__ import annotations


def extent(length: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool = False) -> int:
    """Return how often a window fits into an axis; 0 or less if it does not fit.

    ``padding`` counts both ends. With ``ceil_mode`` the last window may reach beyond the padding.
    """
    room = length + padding - ((kernel - 1) * dilation + 1)
    if room < 0:
        return 0
    return (-(-room // stride) if ceil_mode else room // stride) + 1


def reach(count: int, kernel: int, stride: int, dilation: int, before: int) -> list[range]:
    """Return the elements that the window has at each of its positions. Element 0 is behind ``before`` of padding."""
    starts = range(-before, count * stride - before, stride)
    return [range(start, start + kernel * dilation, dilation) for start in starts]


def all_touch(windows: list[range], first: int, end: int) -> bool:
    """Return whether each window has an element from ``first`` on and before ``end``."""
    return all(any(first <= element < end for element in window) for window in windows)
