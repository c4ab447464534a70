"""Places of the bytes of a box, and moves of a part of it from one place to another."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox, dense_strides
from nnhal_mlip.program.program import Strided


class PlacedBox(NamedTuple):
    """A box that lies at an address, in row-major order and without gaps."""

    address: int
    box: TensorBox
    item: int
    """The bytes of an element."""

    @property
    def strides(self) -> Extents:
        """The bytes between neighbours along each axis."""
        return dense_strides(self.box.shape, self.item)

    def address_of(self, coordinate: Extents) -> int:
        result = self.address
        for value, start, stride in zip(coordinate, self.box.starts, self.strides, strict=True):
            result += (value - start) * stride
        return result


def moves(part: TensorBox, source: PlacedBox, target: PlacedBox) -> list[tuple[Strided, Strided]]:
    """Return how to move a part of a tensor from one place to another: pairs of equally many bytes, in the same order.

    Both places hold the part. Outer axes are taken apart only if their bytes are no pieces at one stride.
    """
    shape = part.shape
    for apart in range(4):
        pairs = []
        for outer in product(*(range(extent) for extent in shape[:apart])):
            corner = (*(a + b for a, b in zip(outer, part.starts, strict=False)), *part.starts[apart:])
            ends = [
                _strided(place.address_of(corner), shape[apart:], place.strides[apart:], place.item)  # type: ignore[arg-type]
                for place in (source, target)
            ]
            if ends[0] is None or ends[1] is None:
                break
            pairs.append((ends[0], ends[1]))
        else:
            return pairs
    raise AssertionError("a single axis is always at one stride")


def _strided(start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Strided | None:
    length = item
    axes = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    while axes and axes[-1][1] == length:
        length *= axes.pop()[0]
    pieces, step = 1, length
    for extent, stride in reversed(axes):
        if pieces == 1:
            pieces, step = extent, stride
        elif stride == pieces * step:
            pieces *= extent
        else:
            return None
    return Strided(start, pieces, length, step)
