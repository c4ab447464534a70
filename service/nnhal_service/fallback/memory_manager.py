"""The fallback memory of a loaded network: the values between its steps, in one arena for each kind of memory.

Offsets are static. The memory is allocated on first use, reused, and freed when the network is unloaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from nnhal.memory import Lifetime, plan_arena
from nnhal.types import Memory
from nnhal_service.fallback.edges import ASHMEM, HARDWARE_BUFFER_BLOB
from nnhal_service.fallback.values import PassedValue
from nnhal_service.run_memory import run_ashmem, run_blob
from nnhal_service.unloaded import UnloadedError

_ALLOCATORS: Mapping[str, Callable[[int], Memory]] = {ASHMEM: run_ashmem, HARDWARE_BUFFER_BLOB: run_blob}
"""Malloc-like and dma-buf-like memory. Mappings begin at a page, so that alignment of the offsets is enough."""
_LEAST_ALIGNMENT = 64
"""Bytes, as the HAL recommends for arguments."""


@dataclass(frozen=True, slots=True)
class MemoryPlacement:
    """The kind of a value's memory, and its offset in the arena of that kind."""

    kind: str
    offset: int


@dataclass(frozen=True, slots=True)
class FallbackLayout:
    """The places of all values, by operand, and the size of each arena in bytes, by kind."""

    placements: Mapping[int, MemoryPlacement]
    sizes: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes.values())


def lay_out(values: Sequence[PassedValue], align: bool = True) -> FallbackLayout:
    """Lay out values so that those which never live at the same time share bytes.

    Each value is aligned to the least common multiple of what its devices need. Without ``align`` none is aligned,
    which shows the cost of alignment.
    """
    placements: dict[int, MemoryPlacement] = {}
    sizes: dict[str, int] = {}
    for kind in sorted({value.kind for value in values}):
        own = [value for value in values if value.kind == kind]
        lifetimes = [
            Lifetime(v.size, v.first, v.last, lcm(*(edge.alignment for edge in v.edges)) if align else 1) for v in own
        ]
        offsets, size = plan_arena(lifetimes, _LEAST_ALIGNMENT if align else 1)
        sizes[kind] = size
        placements |= {v.operand: MemoryPlacement(kind, offset) for v, offset in zip(own, offsets, strict=True)}
    return FallbackLayout(placements, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class FallbackMemory:
    """One instance of a layout: a pool for each kind of memory."""

    pools: Mapping[str, Memory]


class FallbackMemoryManager:
    """Hands out instances of a layout's memory: as many exist as contexts were in use at once. Thread-safe."""

    def __init__(self, layout: FallbackLayout) -> None:
        self.layout = layout
        self._lock = threading.Lock()
        self._free: list[FallbackMemory] | None = []
        self._allocated = 0

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all instances."""
        return self._allocated * self.layout.total_bytes

    def acquire(self) -> FallbackMemory:
        """Return an instance that is not in use.

        Raises UnloadedError, and as ``run_ashmem`` if memory cannot be allocated.
        """
        with self._lock:
            if self._free is None:
                raise UnloadedError
            if self._free:
                return self._free.pop()
            self._allocated += 1
        try:
            return FallbackMemory({kind: _ALLOCATORS[kind](size) for kind, size in self.layout.sizes.items() if size})
        except BaseException:
            with self._lock:
                self._allocated -= 1
            raise

    def release(self, memory: FallbackMemory, is_done: bool = True) -> None:
        """Give an instance back. It is reused only if all devices are done with it."""
        with self._lock:
            if self._free is None or not is_done:
                self._allocated -= 1
            else:
                self._free.append(memory)

    def close(self) -> None:
        """Free the instances: those in use when they are given back, the others now. Idempotent."""
        with self._lock:
            free, self._free = self._free or [], None
            self._allocated -= len(free)
