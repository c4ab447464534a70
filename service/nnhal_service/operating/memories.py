"""The memory that the framework and its native clients use, as operators see it. It is looked up when they ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nnhal.memory import FileIdentity, describe_buffer, identity_of, seals_of
from nnhal.operations import type_name
from nnhal.types import Ashmem, MappableFile, Memory
from nnhal.v1 import admin_pb2 as wire
from nnhal_service.native.session import NativeSession, SessionBinding
from nnhal_service.runtime import ExecutionContext
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.serving import ServedModel

_ARENA = "arena"


class _Pool(NamedTuple):
    session: str
    kind: str
    bytes: int
    identity: FileIdentity
    purpose: str


def pools_of(sessions: Iterable[NativeSession], models: Iterable[ServedModel]) -> list[wire.PoolState]:
    """Return the pools of sessions' bindings and of the instances of served models, with the arenas of both."""
    pools: list[_Pool] = []
    for owner in sessions:
        names = {model: name for name, model in owner.models.items()}
        for handle, binding in owner.by_handle(SessionBinding).items():
            name = names.get(binding.model, "a model that is unloaded")
            pools.extend(_pools_of(binding.context, owner.session.id, f"binding {handle} of {name}"))
    for model in models:
        for context in model.loaded.contexts:
            pools.extend(_pools_of(context, "", f"an instance of {model.name} {model.version}"))
    seals = seals_of({pool.identity for pool in pools})
    return [
        wire.PoolState(
            session=pool.session,
            kind=pool.kind,
            bytes=pool.bytes,
            seals=seals.get(pool.identity, ()),
            mapped=True,
            memory=str(pool.identity),
            purpose=pool.purpose,
        )
        for pool in dict.fromkeys(pools)
    ]


def buffers_of(sessions: Iterable[NativeSession]) -> Iterator[wire.BufferState]:
    """Yield the memory that sessions have allocated for inputs and outputs of their models."""
    for owner in sessions:
        names = {model.original: name for name, model in owner.models.items()}
        for handle, memory in owner.by_handle(AllocatedMemory).items():
            roles = memory.description.roles
            yield wire.BufferState(
                session=owner.session.id,
                token=handle,
                bytes=bytes_of_buffer(memory),
                dimensions=memory.dimensions,
                type=type_name(roles[0].operand.type),
                roles=[f"{role} of {names.get(role.prepared, 'a model that is unloaded')}" for role in roles],
                initialized=memory.is_initialised,
            )


def bytes_of_buffer(memory: AllocatedMemory) -> int:
    """Bytes of allocated memory: those of its host memory, or of its values on a device; 0 if unknown."""
    host = memory.host
    if host is None:
        return memory.description.size_of(memory.dimensions)
    return _size_of(host)


def _pools_of(context: ExecutionContext, session: str, purpose: str) -> Iterator[_Pool]:
    memories = context.memories
    for pool in memories.pools:
        with contextlib.suppress(OSError, ValueError):  # its descriptor is closed by now
            yield _Pool(session, _kind_of(pool), _size_of(pool), _identity_of(pool), purpose)
    for pool in memories.arena:
        with contextlib.suppress(OSError, ValueError):
            yield _Pool(session, _ARENA, _size_of(pool), _identity_of(pool), f"values between steps of {purpose}")


def _kind_of(memory: Memory) -> str:
    if isinstance(memory, Ashmem):
        return "ashmem"
    return "mmap_fd" if isinstance(memory, MappableFile) else "hardware_buffer_blob"


def _size_of(memory: Memory) -> int:
    if isinstance(memory, Ashmem):
        return memory.size
    return memory.length if isinstance(memory, MappableFile) else describe_buffer(memory).byte_size


def _identity_of(memory: Memory) -> FileIdentity:
    if isinstance(memory, Ashmem | MappableFile):
        return identity_of(memory.descriptor.fileno())
    return identity_of(memory.handle.descriptors[0].fileno())
