"""Memory that a device uses in place, and memory that has to be staged.

What the device cannot import (its kind, its alignment, or a file that must not be mapped) is copied into memory of the
host's own before a run, and out of it after. What that costs is counted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument
from nnhal.memory import FilePool, MappedPool, Pool
from nnhal.types import Ashmem, DataLocation, MappableFile, Memory
from nnhal_devices.backend import MemoryKind, MemoryRules

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Staged:
    """An argument with a copy of its own."""

    pool: Pool
    offset: int
    data: Bytes


@dataclass(slots=True)
class Staging:
    """What was copied for one run."""

    bytes: int = 0
    duration_ns: int = 0


NO_STAGING = Staging()


def kind_of(memory: Memory) -> MemoryKind:
    """The kind of a validated pool."""
    if isinstance(memory, Ashmem):
        return MemoryKind.ASHMEM
    if isinstance(memory, MappableFile):
        return MemoryKind.MMAP_FD
    return MemoryKind.HARDWARE_BUFFER_BLOB


def locate(memory: Memory, pool: Pool, location: DataLocation, rules: MemoryRules) -> Bytes | Staged:
    """Where an argument lies: in place where the device's rules allow it, else staged.

    Raises INVALID_ARGUMENT where the pool, kept under a burst's token, is a smaller one than the request's.
    """
    if location.offset + location.length > pool.size:
        invalid_argument(
            f"an argument ends at byte {location.offset + location.length} of its pool; the pool that is known under "
            f"the same token has {pool.size} bytes"
        )
    if isinstance(pool, MappedPool) and kind_of(memory) in rules.imports:
        view = pool.view(location.offset, location.length)
        if view.ctypes.data % rules.alignment == 0:
            return view
    return Staged(pool, location.offset, aligned_bytes(location.length, rules.alignment))


def aligned_bytes(size: int, alignment: int) -> Bytes:
    """Private memory, aligned as a device wants it, and at least as vector instructions do."""
    base, start = aligned_base(size, alignment)
    return base[start : start + size]


def aligned_base(size: int, alignment: int) -> tuple[Bytes, int]:
    """Private zeroed memory of at least ``size`` bytes from the given offset, which is aligned."""
    alignment = max(alignment, _ALIGNMENT)
    base = np.zeros(size + alignment, np.uint8)  # what a run does not write reaches the client too
    return base, -base.ctypes.data % alignment


def copy_in(arguments: Sequence[Staged], staging: Staging) -> None:
    """Fill staged inputs from their pools. Raises GENERAL_FAILURE where a file was truncated."""
    started = time.perf_counter_ns()
    for argument in arguments:
        argument.data[:] = _source(argument)
        staging.bytes += len(argument.data)
    staging.duration_ns += time.perf_counter_ns() - started


def copy_out(arguments: Sequence[Staged], staging: Staging) -> None:
    """Write staged outputs to their pools. Raises GENERAL_FAILURE where a file was truncated."""
    started = time.perf_counter_ns()
    for argument in arguments:
        argument.pool.write(argument.offset, argument.data)
        staging.bytes += len(argument.data)
    staging.duration_ns += time.perf_counter_ns() - started


def _source(argument: Staged) -> Bytes:
    if isinstance(argument.pool, FilePool):
        return argument.pool.read(argument.offset, len(argument.data))
    return argument.pool.view(argument.offset, len(argument.data))
