"""Conditions on windows that several operations share."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations._window import Window
from nnhal_devices.ethos_n.limits import LARGEST_MEAN


def is_whole(window: Window, sides: Sequence[int]) -> bool:
    """Return whether one small window without padding covers the whole image, of a height and a width."""
    axes = window.height, window.width
    return max(sides) <= LARGEST_MEAN and all(
        axis.size == side and not axis.before and not axis.after for axis, side in zip(axes, sides, strict=True)
    )
