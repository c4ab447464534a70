"""How many positions a window has along an axis."""

from __future__ import annotations


def extent(length: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool = False) -> int:
    """Return how often a window fits into an axis; 0 or less if it does not fit.

    ``padding`` counts both ends. With ``ceil_mode`` the last window may reach beyond the padding.
    """
    room = length + padding - ((kernel - 1) * dilation + 1)
    if room < 0:
        return 0
    return (-(-room // stride) if ceil_mode else room // stride) + 1
