"""Which steps touch the same bytes, and so must run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnhal_service.runtime.requests import pool_key
from nnhal_service.runtime.slots import Place, Slot


class Access(NamedTuple):
    """Bytes that a step reads or writes."""

    pool: int
    start: int
    end: int
    is_write: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the order of the two matters."""
        return (
            self.pool == other.pool
            and self.start < other.end
            and other.start < self.end
            and (self.is_write or other.is_write)
        )


def dependencies(steps: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier ones that must have ended before it begins; without those that follow from the others.

    Values that share bytes of an arena order their steps as much as a value that is passed.
    """
    ancestors: list[int] = []  # sets of steps as bits
    found: list[tuple[int, ...]] = []
    for number, accesses in enumerate(steps):
        covered, direct = 0, []
        for earlier in reversed(range(number)):
            if covered >> earlier & 1:
                continue
            if any(mine.conflicts(theirs) for mine in accesses for theirs in steps[earlier]):
                direct.append(earlier)
                covered |= ancestors[earlier] | 1 << earlier
        ancestors.append(covered)
        found.append(tuple(reversed(direct)))
    return found


def accesses_of(inputs: Sequence[Slot], outputs: Sequence[Slot]) -> list[Access]:
    """What a step touches that reads and writes these where it runs as planned. Raises HalError, or TransportError."""
    return [
        *(_access(slot.to_read(own=True), False) for slot in inputs if slot.has_value),
        *(_access(slot.to_write(own=True), True) for slot in outputs),
    ]


def _access(place: Place, is_write: bool) -> Access:
    """A device's own buffer is one thing, whatever its size."""
    return Access(pool_key(place.pool), place.offset, place.offset + max(place.length, 1), is_write)
