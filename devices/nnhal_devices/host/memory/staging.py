"""Memory that a device uses in place, and memory that has to be staged.

Memory that the device cannot import, because of its kind or its alignment or since a file must not be mapped, is copied
into the host's own memory before a run, and out of it after. Its bytes and time are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.errors import invalid_argument
from nnhal.memory import FilePool, GuardedPool, MappedPool, Pool
from nnhal.types import NO_SPAN, Ashmem, Copy, DataLocation, MappableFile, Memory, Span
from nnhal_devices.backend import MemoryKind, MemoryRules

_ALIGNMENT = 64


class UsedPool(NamedTuple):
    """A pool that is open for executions."""

    kind: MemoryKind
    pool: Pool


@dataclass(frozen=True, slots=True)
class Staged:
    """An argument of a run with a copy in the host's memory."""

    pool: Pool
    offset: int
    data: Bytes


@dataclass(slots=True)
class Staging:
    """Copies for one run, and the time of each copy and of the run."""

    bytes: int = 0
    duration_ns: int = 0
    copies: list[Copy] = field(default_factory=list)
    span: Span = NO_SPAN
    """The time of the run, if it is measured."""

    @property
    def measured_copies(self) -> Sequence[Copy]:
        """The copies of a run that is measured."""
        return () if self.span == NO_SPAN else self.copies

    def add(self, copy: Copy) -> None:
        """Count a copy, or note an injected fault."""
        if not copy.injected:
            self.bytes += copy.bytes
            self.duration_ns += copy.ended_ns - copy.started_ns
        self.copies.append(copy)


NO_STAGING = Staging()


def kind_of(memory: Memory) -> MemoryKind:
    """The memory kind of a validated pool."""
    if isinstance(memory, Ashmem):
        return MemoryKind.ASHMEM
    if isinstance(memory, MappableFile):
        return MemoryKind.MMAP_FD
    return MemoryKind.HARDWARE_BUFFER_BLOB


def locate(memory: Memory, pool: Pool, location: DataLocation, rules: MemoryRules) -> Bytes | Staged:
    """Find an argument's memory: in place if the device's rules allow it, else staged.

    Raises INVALID_ARGUMENT if the pool, cached under a burst's token, is smaller than the request's.
    """
    if location.offset + location.length > pool.size:
        invalid_argument(
            f"an argument ends at byte {location.offset + location.length} of its pool; the pool that is known under "
            f"the same token has {pool.size} bytes"
        )
    if isinstance(pool, MappedPool | GuardedPool) and kind_of(memory) in rules.imports:
        view = pool.view(location.offset, location.length)
        if view.ctypes.data % rules.alignment == 0:
            return view
    return Staged(pool, location.offset, aligned_bytes(location.length, rules.alignment))


def aligned_bytes(size: int, alignment: int) -> Bytes:
    """Allocate private memory, aligned as the device wants it, and at least for vector instructions."""
    base, start = aligned_base(size, alignment)
    return base[start : start + size]


def aligned_base(size: int, alignment: int) -> tuple[Bytes, int]:
    """Allocate private zeroed memory. Returns it with an aligned offset, from which it has at least ``size`` bytes."""
    alignment = max(alignment, _ALIGNMENT)
    base = np.zeros(size + alignment, np.uint8)  # bytes that a run does not write reach the client too
    return base, -base.ctypes.data % alignment


def copy_in(arguments: Sequence[Staged], staging: Staging) -> None:
    """Fill staged inputs from their pools. Raises GENERAL_FAILURE if a file was truncated."""
    started = now_ns()
    for argument in arguments:
        argument.data[:] = _source(argument)
    staging.add(Copy(False, _bytes(arguments), started, now_ns()))


def copy_out(arguments: Sequence[Staged], staging: Staging) -> None:
    """Write staged outputs to their pools. Raises GENERAL_FAILURE if a file was truncated."""
    started = now_ns()
    for argument in arguments:
        argument.pool.write(argument.offset, argument.data)
    staging.add(Copy(True, _bytes(arguments), started, now_ns()))


def _bytes(arguments: Sequence[Staged]) -> int:
    return sum(len(argument.data) for argument in arguments)


def _source(argument: Staged) -> Bytes:
    if isinstance(argument.pool, FilePool):
        return argument.pool.read(argument.offset, len(argument.data))
    return argument.pool.view(argument.offset, len(argument.data))
