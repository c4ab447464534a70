"""Shared memory, whoever holds it: one piece may be held by several processes, and in each by several sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nnhal.v1 import admin_pb2
from nnhal_pages.operating.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MemoryHolder:
    """A session that holds a piece of memory."""

    process: str
    pool: admin_pb2.PoolState


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A piece of memory, with all that hold it."""

    identity: str
    """Device and inode number of its file."""
    holders: tuple[MemoryHolder, ...]

    @property
    def bytes(self) -> int:
        """Its size."""
        return max(holder.pool.bytes for holder in self.holders)

    @property
    def kinds(self) -> list[str]:
        """Return what kinds of memory it is to those that hold it."""
        return sorted({holder.pool.kind for holder in self.holders})

    @property
    def seals(self) -> list[str]:
        """The seals of its file."""
        return sorted({seal for holder in self.holders for seal in holder.pool.seals})


def shared_memories(snapshot: Snapshot, process: str = "", session: str = "") -> list[HeldMemory]:
    """List the pieces of memory, the largest first; with ``process`` and ``session``, those held there."""
    holders: dict[str, list[MemoryHolder]] = {}
    for holder in _holders(snapshot):
        # Memory without an identity is not known to be the same as any other.
        identity = holder.pool.memory or f"{holder.process} {holder.pool.session} {len(holders)}"
        holders.setdefault(identity, []).append(holder)
    pieces = [
        HeldMemory(identity, tuple(found))
        for identity, found in holders.items()
        if not (process or session) or any(_is_held(holder, process, session) for holder in found)
    ]
    return sorted(pieces, key=lambda piece: (-piece.bytes, piece.identity))


def total_bytes(pools: Iterable[admin_pb2.PoolState]) -> int:
    """Add up pools, each piece of memory once."""
    known: dict[object, int] = {}
    for number, pool in enumerate(pools):
        known[pool.memory or number] = pool.bytes
    return sum(known.values())


def _holders(snapshot: Snapshot) -> Iterator[MemoryHolder]:
    for process in snapshot.processes:
        said = process.last_said
        if said is not None:
            yield from (MemoryHolder(process.name, pool) for pool in said.pools)


def _is_held(holder: MemoryHolder, process: str, session: str) -> bool:
    return process in ("", holder.process) and session in ("", holder.pool.session)
