"""The constants of a part as bytes.

They lie at rest in the NPU's own encoding. The machine computes with the model's values, and keeps an image of the same
size for the encoding: what is copied into the arena is compared with it before each stripe, so that constants that
were overwritten are found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arena import ArenaRegion, Owner
from nnhal_cascade.machine.errors import OverwrittenError, StreamError
from nnhal_cascade.machine.tags import ByteOwners, Tags, first_difference


def image_of(constants: Sequence[Array], shape: Shape) -> Bytes:
    """Return bytes that stand for a part's constants: [channels, bytes of a channel] of ``shape``'s last two axes."""
    raw = b"".join(np.ascontiguousarray(each).tobytes() for each in constants) or b"\0"
    return np.resize(np.frombuffer(raw, np.uint8), shape[1:])


class Slots:
    """The buffer of a part's constants: one slot, or two."""

    def __init__(
        self, owner: Owner, image: Bytes, region: ArenaRegion, address: int, size: int, slots: int, owners: ByteOwners
    ) -> None:
        if slots not in (1, 2):
            raise StreamError(f"{owner.name} have {slots} slots, expected 1 or 2")
        self.region = region.name
        self.end = address + slots * size
        where = region.slice(address, slots * size, owner.name)
        self._address, self._size = address, size
        self._owner, self._owners, self._image = owner, owners, image
        self._bytes = region.bytes[where].reshape(slots, size)
        self._tags: Tags | None = None if region.tags is None else region.tags[where].reshape(slots, size)
        self._held: list[Interval | None] = [None] * slots

    def copy(self, channels: Interval, slot: int) -> int:
        """Fill a slot with the constants of some channels of the output, and return how many bytes they are."""
        self._require(slot)
        if not 0 <= channels.start <= channels.stop <= len(self._image):
            raise StreamError(f"a copy of channels {channels.start}..{channels.stop - 1} of {self._owner.name}")
        image = self._image[slice(*channels)].reshape(-1)
        if image.size > self._size:
            raise StreamError(f"a copy of {image.size} bytes to {self._owner.name}, whose slots have {self._size}")
        self._bytes[slot, : image.size] = image
        if self._tags is not None:
            self._tags[slot, : image.size] = self._expected(channels)
        self._held[slot] = channels
        return int(image.size)

    def check(self, channels: Interval, slot: int, reader: str) -> None:
        """Check that a slot holds the constants of some channels. Raises StreamError and OverwrittenError."""
        self._require(slot)
        held = self._held[slot]
        if held is None or channels.start < held.start or channels.stop > held.stop:
            got = "nothing" if held is None else f"channels {held.start}..{held.stop - 1}"
            raise StreamError(
                f"{reader} needs channels {channels.start}..{channels.stop - 1} of {self._owner.name} in slot {slot}, "
                f"which holds {got}"
            )
        width = self._image.shape[1]
        start = (channels.start - held.start) * width
        image = self._image[slice(*channels)].reshape(-1)
        where = slice(start, start + image.size)
        if self._tags is not None:
            expected = self._expected(channels)
            at = first_difference(expected, self._tags[slot, where, None])
            if at is not None:
                fault = self._owners.fault(int(expected[at[0]]), int(self._tags[slot, where][at[0]]))
                self._overwritten(reader, slot, start + at[0], fault)
        if not np.array_equal(self._bytes[slot, where], image):
            at = int(np.argmax(self._bytes[slot, where] != image)), 0
            self._overwritten(reader, slot, start + at[0], f"{self._owner.name} were overwritten")

    def _require(self, slot: int) -> None:
        if not 0 <= slot < len(self._held):
            raise StreamError(f"slot {slot} of {self._owner.name}, which have {len(self._held)}")

    def _expected(self, channels: Interval) -> Tags:
        box = Box(Interval(0, 1), channels, Interval(0, self._image.shape[1]))
        return self._owners.tags(self._owner.number, box).reshape(-1)

    def _overwritten(self, reader: str, slot: int, offset: int, fault: str) -> None:
        address = self._address + slot * self._size + offset
        raise OverwrittenError(f"{reader} reads {self.region}[{address:#x}]: {fault}")
