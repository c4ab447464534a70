"""The request of a step, and the order of steps that share memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnhal.codec.lengths import Lengths
from nnhal.types import DataLocation, Request, RequestArgument, RequestMemoryPool
from nnhal.types.layout import is_scalar
from nnhal_service.run_memory import run_ashmem
from nnhal_service.runtime.memory.slots import MemoryRange, Slot


def request_of(inputs: Sequence[Slot], outputs: Sequence[Slot], own: bool, lasting: bool = False) -> Request:
    """The request of a step, with only the pools that it uses.

    ``own`` says that the step runs on its own device, ``lasting`` that it is for all runs: a device's own memory tells
    it the dimensions of each. In a request a length of 0 is unknown: an empty value stands there with a length of 1,
    and the run tells its own (``empty_lengths``). Raises as ``Slot.to_read`` and ``Slot.to_write`` do.
    """
    pools: dict[int, tuple[int, RequestMemoryPool]] = {}

    def argument(slot: Slot, is_read: bool) -> RequestArgument:
        if is_read and slot.is_empty and not lasting:
            stated = tuple(length or 1 for length in slot.dimensions)
            memory = run_ashmem(slot.element.size(stated))
            pools[pool_key(memory)] = index, _ = len(pools), memory
            return RequestArgument(DataLocation(index, 0, slot.element.size(stated)), stated)
        place = slot.to_read(own) if is_read else slot.to_write(own)
        index, _ = pools.setdefault(pool_key(place.pool), (len(pools), place.pool))
        stated = slot.stated if lasting else slot.dimensions
        dimensions = () if is_scalar(slot.element.code) else stated
        varies = is_read and isinstance(place.pool, int) and not slot.element.size(stated)
        location = DataLocation(index, place.offset, place.length, place.padding)
        return RequestArgument(location, dimensions, varies=varies)

    return Request(
        tuple(argument(slot, True) if slot.has_value else RequestArgument(has_no_value=True) for slot in inputs),
        tuple(argument(slot, False) for slot in outputs),
        tuple(pool for _, pool in pools.values()),
    )


def empty_lengths(inputs: Sequence[Slot]) -> Lengths:
    """Return the dimensions of the inputs that are empty, for a run of their request."""
    return [(position, slot.dimensions) for position, slot in enumerate(inputs) if slot.is_empty]


def pool_key(pool: RequestMemoryPool) -> int:
    """A key that distinguishes the pools of a request: the token, which is above 0, or the memory's identity."""
    return -pool if isinstance(pool, int) else id(pool)


class Access(NamedTuple):
    """Bytes that a step reads or writes."""

    pool: int
    start: int
    end: int
    is_write: bool
    device: str = ""
    """The device whose buffer the pool is, if it is one: tokens are unique on a device."""

    def conflicts(self, other: Access) -> bool:
        """Return whether the order of the two matters."""
        return (
            self.pool == other.pool
            and self.device == other.device
            and self.start < other.end
            and other.start < self.end
            and (self.is_write or other.is_write)
        )


def dependencies(steps: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier steps that must end before it begins, without those that other dependencies imply.

    Values that share bytes of an arena order their steps just as a value that is passed does.
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


def accesses_of(device: str, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> list[Access]:
    """Return the memory that a step touches that reads and writes these slots on its own device. Raises HalError or
    TransportError.
    """
    return [
        *(_access(device, slot.to_read(own=True), False) for slot in inputs if slot.has_value),
        *(_access(device, slot.to_write(own=True), True) for slot in outputs),
    ]


def _access(device: str, place: MemoryRange, is_write: bool) -> Access:
    """The bytes of one value. A device's own buffer counts as a whole, whatever its size."""
    owner = device if isinstance(place.pool, int) else ""
    return Access(pool_key(place.pool), place.offset, place.offset + max(place.length, 1), is_write, owner)
