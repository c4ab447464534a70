"""The memory that the sessions of a device use, as operators see it. It is looked up when they ask."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nnhal.descriptor import Descriptor
from nnhal.memory import (
    FileIdentity,
    GuardedPool,
    MappedPool,
    describe_buffer,
    identity_of,
    is_regular,
    seals_of,
)
from nnhal.memory.ashmem import cannot_shrink
from nnhal.operations import type_name
from nnhal.types import HardwareBuffer, MappableFile, Memory
from nnhal.v1 import admin_pb2 as wire
from nnhal_devices.backend import MemoryKind
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.memory.staging import UsedPool, kind_of
from nnhal_devices.host.operating.work_view import RELEASED, names_of
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSession

_MOST_PURPOSES = 3
"""Purposes of one pool that are named; further ones are counted."""


@dataclass(frozen=True, slots=True)
class _Key:
    """Key that tells the pools of a session apart."""

    identity: FileIdentity
    kind: str
    bytes: int


@dataclass(slots=True)
class _Use:
    mapped: bool = False
    staged: bool = False
    purposes: dict[str, None] = field(default_factory=dict)


def pools_of(clients: Iterable[ClientSession], running: Iterable[Execution]) -> list[wire.PoolState]:
    """Return the pools of sessions. ``running`` are the executions of all sessions that run or wait now."""
    used = {client: _pools_of(client, [each for each in running if each.owner is client]) for client in clients}
    seals = seals_of({key.identity for pools in used.values() for key in pools})
    return [
        wire.PoolState(
            session=client.session.id,
            kind=key.kind,
            bytes=key.bytes,
            seals=seals.get(key.identity, ()),
            mapped=use.mapped,
            staged=use.staged,
            memory=str(key.identity),
            purpose=_listed(list(use.purposes)),
        )
        for client, pools in used.items()
        for key, use in pools.items()
    ]


def buffers_of(clients: Iterable[ClientSession]) -> list[wire.BufferState]:
    """Return the buffers of memory domains of sessions."""
    return [state for client in clients for state in _buffers_of(client)]


def _pools_of(client: ClientSession, running: Iterable[Execution]) -> dict[_Key, _Use]:
    pools: dict[_Key, _Use] = {}

    def use(key: _Key, purpose: str) -> _Use:
        found = pools.setdefault(key, _Use())
        found.purposes[purpose] = None
        return found

    names = names_of(client)
    for handle, prepared in client.by_handle(PreparedModel).items():
        for memory in prepared.model.model.pools:
            for key in _described(memory):
                use(key, f"constants of prepared model {handle}").mapped = _is_mapped(memory)
    for execution in [*client.all(Execution), *running]:
        staged = {id(argument.pool) for argument in execution.staged}
        for pool in execution.pools:
            for key in _opened(pool):
                found = use(key, f"executions of {names.get(execution.prepared, RELEASED)}")
                found.mapped |= isinstance(pool.pool, MappedPool | GuardedPool)
                found.staged |= id(pool.pool) in staged
    for handle, burst in client.by_handle(Burst).items():
        for pool in burst.pools:
            for key in _opened(pool):
                use(key, f"burst {handle}").mapped |= isinstance(pool.pool, MappedPool | GuardedPool)
    known = {key.identity for key in pools}
    for descriptor in client.descriptors.all_put():
        for key in _put(descriptor):
            if key.identity not in known:
                use(key, "on the link, used by nothing")
    return pools


def _opened(used: UsedPool) -> Iterator[_Key]:
    with contextlib.suppress(OSError, ValueError):  # its descriptor is closed by now
        yield _Key(used.pool.identity, used.kind, used.pool.size)


def _described(memory: Memory) -> Iterator[_Key]:
    """The pool of a valid model."""
    with contextlib.suppress(OSError, ValueError):
        if isinstance(memory, HardwareBuffer):
            size = describe_buffer(memory).byte_size
            yield _Key(identity_of(memory.handle.descriptors[0].fileno()), kind_of(memory), size)
        else:
            size = memory.length if isinstance(memory, MappableFile) else memory.size
            yield _Key(identity_of(memory.descriptor.fileno()), kind_of(memory), size)


def _is_mapped(memory: Memory) -> bool:
    """Return whether constants in a pool are used in place: those in a file that may shrink are copied once."""
    return not isinstance(memory, MappableFile) or cannot_shrink(memory.descriptor)


def _put(descriptor: Descriptor) -> Iterator[_Key]:
    """The memory that a client has put on its link, if it is memory: a memfd may also belong to a hardware buffer."""
    with contextlib.suppress(OSError, ValueError):
        fd = descriptor.fileno()
        if is_regular(fd):
            is_memfd = str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("/memfd:")
            yield _Key(identity_of(fd), MemoryKind.ASHMEM if is_memfd else MemoryKind.MMAP_FD, os.fstat(fd).st_size)


def _listed(purposes: list[str]) -> str:
    more = len(purposes) - _MOST_PURPOSES
    return ", ".join(purposes[:_MOST_PURPOSES]) + (f" and {more} more" if more > 0 else "")


def _buffers_of(client: ClientSession) -> Iterator[wire.BufferState]:
    names = {prepared.identity: f"prepared model {n}" for n, prepared in client.by_handle(PreparedModel).items()}
    for token, buffer in client.by_handle(DeviceBuffer).items():
        contents = buffer.contents
        yield wire.BufferState(
            session=client.session.id,
            token=token,
            bytes=contents.bytes,
            dimensions=contents.dimensions,
            type=type_name(buffer.type),
            roles=sorted(f"{role} of {names.get(role.prepared, RELEASED)}" for role in buffer.roles),
            initialized=contents.is_initialised,
        )
