"""Boxes: the part of a tensor of rank 4 between two corners."""

from __future__ import annotations

from math import prod
from operator import ge
from typing import NamedTuple, TypeAlias

Extents: TypeAlias = tuple[int, int, int, int]
"""The extents of a tensor, axis by axis: batch, height, width, channels for an image."""


class TensorBox(NamedTuple):
    """The elements from ``starts`` to before ``stops``, axis by axis."""

    starts: Extents
    stops: Extents

    @property
    def shape(self) -> Extents:
        """The number of elements along each axis."""
        (a, b, c, d), (e, f, g, h) = self
        return e - a, f - b, g - c, h - d

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def moved(self, offset: Extents) -> TensorBox:
        return TensorBox(_sum(self.starts, offset), _sum(self.stops, offset))

    def permuted(self, axes: Extents) -> TensorBox:
        """Return the box whose axis ``axes[i]`` is axis i of this one."""
        starts, stops = [0] * 4, [0] * 4
        for axis, start, stop in zip(axes, self.starts, self.stops, strict=True):
            starts[axis], stops[axis] = start, stop
        return TensorBox(four(starts), four(stops))

    def along(self, axis: int, start: int, stop: int) -> TensorBox:
        """Return the box with other ends along an axis."""
        starts, stops = list(self.starts), list(self.stops)
        starts[axis], stops[axis] = start, stop
        return TensorBox(four(starts), four(stops))

    def holds(self, other: TensorBox) -> bool:
        return all(a <= b for a, b in zip(self.starts, other.starts, strict=True)) and all(
            a >= b for a, b in zip(self.stops, other.stops, strict=True)
        )


def four(values: list[int] | tuple[int, ...]) -> Extents:
    first, second, third, fourth = values
    return first, second, third, fourth


def whole(extents: Extents) -> TensorBox:
    return TensorBox((0, 0, 0, 0), extents)


def hull(one: TensorBox, other: TensorBox) -> TensorBox:
    """Return the smallest box that holds both."""
    return TensorBox(_lowest(one.starts, other.starts), _highest(one.stops, other.stops))


def common(one: TensorBox, other: TensorBox) -> TensorBox | None:
    """Return what two boxes share, or None if that is nothing."""
    starts, stops = _highest(one.starts, other.starts), _lowest(one.stops, other.stops)
    return None if any(map(ge, starts, stops)) else TensorBox(starts, stops)


def _lowest(one: Extents, other: Extents) -> Extents:
    (a, b, c, d), (e, f, g, h) = one, other
    return a if a < e else e, b if b < f else f, c if c < g else g, d if d < h else h


def _highest(one: Extents, other: Extents) -> Extents:
    (a, b, c, d), (e, f, g, h) = one, other
    return a if a > e else e, b if b > f else f, c if c > g else g, d if d > h else h


def dense_strides(extents: Extents, item: int) -> Extents:
    """Return the strides in bytes of a tensor in row-major order whose elements have ``item`` bytes."""
    _, height, width, channels = extents
    return height * width * channels * item, width * channels * item, channels * item, item


def consecutive(box: TensorBox, extents: Extents) -> TensorBox:
    """Return the smallest box that holds another and whose elements are consecutive in a tensor in row-major order."""
    starts, stops = list(box.starts), list(box.stops)
    wide = False
    for axis in range(4):
        if wide:
            starts[axis], stops[axis] = 0, extents[axis]
        wide = wide or stops[axis] - starts[axis] > 1
    return TensorBox(four(starts), four(stops))


def seen_as(box: TensorBox, extents: Extents, others: Extents) -> TensorBox:
    """Return a box of consecutive elements that holds another, for the same bytes seen with other extents.

    Args:
        box: Not empty; of a tensor of ``extents``.
        extents: Of the tensor that the box belongs to.
        others: Of the tensor that the result belongs to, with as many elements.
    """
    first = coordinates(position(box.starts, extents), others)
    stops = box.stops
    last = coordinates(position((stops[0] - 1, stops[1] - 1, stops[2] - 1, stops[3] - 1), extents), others)
    starts, ends = [0] * 4, list(others)
    for axis in range(4):
        starts[axis], ends[axis] = first[axis], last[axis] + 1
        if first[axis] != last[axis]:
            for inner in range(axis + 1, 4):
                starts[inner], ends[inner] = 0, others[inner]
            break
    return TensorBox(four(starts), four(ends))


def position(coordinate: Extents, extents: Extents) -> int:
    """Return the number of an element in row-major order."""
    result = 0
    for value, extent in zip(coordinate, extents, strict=True):
        result = result * extent + value
    return result


def coordinates(number: int, extents: Extents) -> Extents:
    """Return the coordinates of the element with a number in row-major order."""
    result = []
    for extent in reversed(extents):
        number, value = divmod(number, extent)
        result.append(value)
    return four(result[::-1])


def _sum(one: Extents, other: Extents) -> Extents:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
