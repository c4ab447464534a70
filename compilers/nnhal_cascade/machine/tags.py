"""Whose bytes are whose: the bookkeeping of the checking mode.

Each byte of an arena has a tag: the owner and the element that it is a part of. A dead element's tag is negative, and
a byte that was never written has none (0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnhal_cascade.geometry.box import Box, Shape

Tags = NDArray[np.int64]

_ELEMENT_BITS = 40
_ELEMENTS = (1 << _ELEMENT_BITS) - 1


class ByteOwners:
    """The owners of bytes, by number: tensors, and behind them the constants of parts."""

    def __init__(self, tensors: Sequence[tuple[str, Shape]], constants: Sequence[tuple[str, Shape]]) -> None:
        """ByteOwners have a name and the shape that their elements are numbered in, row-major.

        Constants are of [1, channels of the output, bytes of a channel].
        """
        self._owners = (*tensors, *constants)
        self._tensors = len(tensors)

    def tags(self, owner: int, box: Box) -> Tags:
        """Return the tags of a box of an owner's elements."""
        _, (_, columns, channels) = self._owners[owner]
        rows, across, deep = (np.arange(*interval, dtype=np.int64) for interval in box)
        base = (owner + 1) << _ELEMENT_BITS
        elements: Tags = ((rows[:, None] * columns + across) * channels)[:, :, None] + (deep + base)
        return elements

    def name(self, tag: int) -> str:
        """Return the name of a tag's element: ``conv_1[row 3, column 0, channel 1]``."""
        owner = (abs(tag) >> _ELEMENT_BITS) - 1
        name, (_, columns, channels) = self._owners[owner]
        place, last = divmod(abs(tag) & _ELEMENTS, channels)
        if owner >= self._tensors:
            return f"{name}[channel {place}, byte {last}]"
        row, column = divmod(place, columns)
        return f"{name}[row {row}, column {column}, channel {last}]"

    def fault(self, expected: int, found: int) -> str:
        """Say what became of an element in whose place there is another tag."""
        if found == 0:
            return f"{self.name(expected)} was never written"
        if found == -expected:
            return f"{self.name(expected)} is dead: the stream has rolled past it"
        if found < 0:
            return f"{self.name(expected)} is not there: {self.name(found)} was, and is dead"
        return f"{self.name(expected)} was overwritten by {self.name(found)}"


def first_difference(expected: Tags, found: Tags) -> tuple[int, ...] | None:
    """Return the index of the first element with a byte that has another tag; ``found`` has an axis for bytes."""
    wrong = found != expected[..., None]
    if not wrong.any():
        return None
    return tuple(int(index) for index in np.argwhere(wrong)[0])
