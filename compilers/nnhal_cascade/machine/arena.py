"""The memory of a run, and tensors in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array, Bytes
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape, whole
from nnhal_cascade.machine.errors import OverwrittenError, StreamError
from nnhal_cascade.machine.tags import ByteOwners, Tags, first_difference

_Place = tuple[slice, slice, slice]


class ArenaRegion:
    """As many bytes of one memory as the stream uses, and their tags if they are checked."""

    def __init__(self, name: str, size: int, checked: bool) -> None:
        self.name = name
        self.bytes: Bytes = np.zeros(size, np.uint8)
        self.tags: Tags | None = np.zeros(size, np.int64) if checked else None

    def slice(self, address: int, size: int, what: str) -> slice:
        """Return where some bytes lie. Raises StreamError if that is outside."""
        if address < 0 or size < 0 or address + size > len(self.bytes):
            raise StreamError(
                f"{what} at {address:#x} takes {size} bytes of {self.name}, the stream has {len(self.bytes)} of them"
            )
        return slice(address, address + size)


class Owner(NamedTuple):
    """Owner of a buffer."""

    number: int
    """Its number among the owners."""
    name: str
    shape: Shape
    """All of its elements."""


class Buffer:
    """A tensor in an arena. Element [row, column, channel] lies at these indices modulo the buffer's extents."""

    def __init__(
        self,
        owner: Owner,
        element: np.dtype[np.generic],
        region: ArenaRegion,
        address: int,
        extents: Shape,
        owners: ByteOwners,
    ) -> None:
        if min(extents) < 1 or any(extent > length for extent, length in zip(extents, owner.shape, strict=True)):
            raise StreamError(f"{owner.name} of {_sizes(owner.shape)} has a buffer of {_sizes(extents)}")
        self.region = region.name
        self.address = address
        size = extents.elements * element.itemsize
        self.end = address + size
        where = region.slice(address, size, owner.name)
        self._owner, self._owners = owner, owners
        self._extents = extents
        self._elements: Array = region.bytes[where].view(element).reshape(extents)
        self._tags = None if region.tags is None else region.tags[where].reshape(*extents, element.itemsize)
        self._element_bytes = element.itemsize
        self._live: NDArray[np.bool_] = np.zeros(owner.shape, np.bool_)

    def require(self, box: Box, writer: str) -> None:
        """Raise StreamError if a box has no elements, or if the buffer has no room for it."""
        if 0 in box.shape:
            raise StreamError(f"{writer} makes no element of {self._owner.name}, expected at least one")
        self._places(box, writer)

    def read(self, box: Box, reader: str) -> Array:
        """Return a box of the tensor, in place if it does not wrap. Raises OverwrittenError if that is checked."""
        places = self._places(box, reader)
        if self._tags is not None:
            self._check(self._tags, box, places, reader)
        if len(places) == 1:
            return self._elements[places[0][0]]
        values = np.empty(box.shape, self._elements.dtype)
        for place, part in places:
            values[part] = self._elements[place]
        return values

    def write(self, box: Box, values: Array, writer: str) -> int:
        """Write a box of the tensor, and return how many bytes came to life."""
        places = self._places(box, writer)
        if len(places) > 1 and np.may_share_memory(values, self._elements):
            values = values.copy()  # a piece must not be written over what another one is copied from
        for place, part in places:
            self._elements[place] = values[part]
        if self._tags is not None:
            tags = self._owners.tags(self._owner.number, box)
            for place, part in places:
                self._tags[place] = tags[part][..., None]
        live = self._live[_slices(box)]
        fresh = live.size - int(np.count_nonzero(live))
        live[...] = True
        return fresh * self._element_bytes

    def roll(self, axis: Axis, dead: Interval) -> int:
        """Let elements die, and return how many bytes did."""
        box = whole(self._owner.shape).along(axis, dead)
        self._inside(box, "roll")
        if self._tags is not None:
            self._bury(self._tags, box)
        live = self._live[_slices(box)]
        died = int(np.count_nonzero(live))
        live[...] = False
        return died * self._element_bytes

    def release(self) -> int:
        """Let all elements die, and return how many bytes did."""
        return self.roll(Axis.ROWS, Interval(0, self._owner.shape.rows))

    def _places(self, box: Box, user: str) -> list[tuple[_Place, _Place]]:
        """Return where a box lies in the buffer, in pieces that do not wrap, and where the pieces lie in the box."""
        self._inside(box, user)
        axes = []
        for interval, extent in zip(box, self._extents, strict=True):
            start, length = interval.start % extent, interval.length
            if length > extent:
                raise StreamError(
                    f"{user} uses {_boxed(self._owner.name, box)}, in a buffer of {_sizes(self._extents)} elements"
                )
            if start + length <= extent:
                axes.append([(slice(start, start + length), slice(0, length))])
            else:
                first = extent - start
                axes.append([(slice(start, extent), slice(0, first)), (slice(0, length - first), slice(first, length))])
        if len(axes[0]) == len(axes[1]) == len(axes[2]) == 1:
            (rows,), (columns,), (channels,) = axes
            return [((rows[0], columns[0], channels[0]), (rows[1], columns[1], channels[1]))]
        return [((r[0], c[0], k[0]), (r[1], c[1], k[1])) for r, c, k in product(*axes)]

    def _inside(self, box: Box, user: str) -> None:
        for interval, length in zip(box, self._owner.shape, strict=True):
            if not 0 <= interval.start <= interval.stop <= length:
                raise StreamError(
                    f"{user} uses {_boxed(self._owner.name, box)}, of {_sizes(self._owner.shape)} elements"
                )

    def _check(self, tags: Tags, box: Box, places: list[tuple[_Place, _Place]], reader: str) -> None:
        expected = self._owners.tags(self._owner.number, box)
        for place, part in places:
            at = first_difference(expected[part], tags[place])
            if at is not None:
                fault = self._owners.fault(int(expected[part][at[:-1]]), int(tags[place][at]))
                offset = np.arange(tags.size).reshape(tags.shape)[place][at]
                raise OverwrittenError(f"{reader} reads {self.region}[{self.address + int(offset):#x}]: {fault}")

    def _bury(self, tags: Tags, box: Box) -> None:
        """Mark elements as dead that nothing has been written over yet."""
        for part in product(*(_chunks(interval, extent) for interval, extent in zip(box, self._extents, strict=True))):
            chunk = Box(*part)
            expected = self._owners.tags(self._owner.number, chunk)
            for place, where in self._places(chunk, "roll"):
                found = tags[place]
                np.negative(found, out=found, where=found == expected[where][..., None])


def _chunks(interval: Interval, extent: int) -> Iterator[Interval]:
    """An interval in pieces that a buffer has room for."""
    for start in range(interval.start, interval.stop, extent):
        yield Interval(start, min(start + extent, interval.stop))


def _slices(box: Box) -> _Place:
    return slice(*box.rows), slice(*box.columns), slice(*box.channels)


def _sizes(extents: Sequence[int]) -> str:
    return " x ".join(str(extent) for extent in extents)


def _boxed(name: str, box: Box) -> str:
    rows, columns, channels = (f"{each.start}..{each.stop - 1}" for each in box)
    return f"{name}[rows {rows}, columns {columns}, channels {channels}]"
