"""The two orders of axes in which the graph may hold a tensor.

ONNX convolves and pools images with their channels first. A HAL model has them last by default, so an operand gets a
duplicate with moved axes. Neighbouring operations share the duplicate, and nothing is moved between them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nnhal.arrays import Array

RANK = 4
TO_CHANNELS_FIRST = (0, 3, 1, 2)
TO_CHANNELS_LAST = (0, 2, 3, 1)


class Layout(IntEnum):
    """The order of a tensor's axes, compared with the operand's dimensions."""

    GIVEN = 0
    """As the operand's dimensions."""
    MOVED = 1
    """The last of four axes comes second."""

    def axis(self, axis: int) -> int:
        """The position of the operand's axis, which is in [0, rank)."""
        return axis if self is Layout.GIVEN else TO_CHANNELS_FIRST.index(axis)

    def move(self, array: Array) -> Array:
        """Move a constant to this layout. One of lower rank gets leading axes of 1, as for broadcasting."""
        if self is Layout.GIVEN:
            return array
        return np.transpose(array.reshape((1,) * (RANK - array.ndim) + array.shape), TO_CHANNELS_FIRST)
