"""Values of a model that lie outside of its file: in files of their own, or in memory of whoever loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nnhal.arrays import Array, Bytes
from nnhal.memory import Region
from nnhal.types import Ashmem


@dataclass(frozen=True, slots=True, eq=False)
class WeightsPool:
    """Memory that can no longer change. Models refer to values in it, instead of having copies."""

    memory: Ashmem
    values: Bytes
    """A view of all of it, read-only."""

    @classmethod
    def of(cls, memory: Ashmem) -> WeightsPool:
        """Map memory that is sealed against writing and shrinking. Raises OSError or ValueError if it cannot be."""
        return cls(memory, Region(memory.descriptor, memory.size, writable=False).bytes())

    def offset_of(self, values: Array) -> int | None:
        """Return where an array begins in the memory; None if its elements do not lie in it, one behind the other."""
        if not values.flags.c_contiguous or not values.nbytes:
            return None
        offset = _address(values) - _address(self.values)
        return offset if 0 <= offset <= self.values.nbytes - values.nbytes else None


Weights: TypeAlias = Mapping[str, WeightsPool]
"""The memory of the files that a model's file names, by the names that it has for them."""


def pool_of(pools: Mapping[str, WeightsPool], values: Array) -> tuple[WeightsPool, int] | None:
    """Return the pool that an array lies in, and where; None if it lies in none, or its elements are not aligned."""
    for pool in pools.values():
        offset = pool.offset_of(values)
        if offset is not None and offset % values.itemsize == 0:
            return pool, offset
    return None


def _address(values: Array) -> int:
    return int(values.__array_interface__["data"][0])
