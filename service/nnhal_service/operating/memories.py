"""The memory that the framework and its native clients use, as operators see it. It is looked up when they ask."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from nnhal.memory import FileIdentity, describe_buffer, identity_of, seals_of
from nnhal.operations import type_name
from nnhal.types import Ashmem, MappableFile, Memory, OperandLifeTime
from nnhal.v1 import admin_pb2 as wire
from nnhal_frontends.imported import ImportedModel
from nnhal_service.native.session import NativeSession, SessionBinding
from nnhal_service.runtime import ExecutionContext, LoadedModel
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.serving import ServedModel

_ARENA = "arena"
_MOST_TENSORS = 4
"""So many tensors of a pool are named."""
_CONSTANTS: WeakKeyDictionary[LoadedModel, tuple[tuple[Memory, str], ...]] = WeakKeyDictionary()
"""The memory of constants by model. It does not change while a model is loaded, and is asked for each second."""


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
        for name, loaded in owner.models.items():
            pools.extend(_constants_of(loaded, owner.session.id, name))
        for handle, binding in owner.by_handle(SessionBinding).items():
            name = names.get(binding.model, "a model that is unloaded")
            pools.extend(_pools_of(binding.context, owner.session.id, f"binding {handle} of {name}"))
    for model in models:
        pools.extend(_constants_of(model.loaded, "", f"{model.name} {model.version}"))
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


def _constants_of(loaded: LoadedModel, session: str, name: str) -> Iterator[_Pool]:
    """Yield the pools with a model's constants, which its devices hold as well, with the names of tensors in them."""
    if loaded not in _CONSTANTS:
        _CONSTANTS[loaded] = tuple(_named_constants(loaded))
    for pool, words in _CONSTANTS[loaded]:
        with contextlib.suppress(OSError, ValueError):  # its descriptor is closed by now
            yield _Pool(session, _kind_of(pool), _size_of(pool), _identity_of(pool), f"constants of {name}{words}")


def _named_constants(loaded: LoadedModel) -> Iterator[tuple[Memory, str]]:
    """Yield the pools, and what is said of each after the name of the model."""
    plan = loaded.original
    known: set[int] = set()
    tensors = _tensors_by_pool(plan.survey.imported)
    for index, pool in enumerate(plan.survey.imported.model.pools):
        known.add(id(pool))
        names = tensors.get(index, [])
        listed, more = ", ".join(names[:_MOST_TENSORS]), len(names) - _MOST_TENSORS
        yield pool, (f": {listed}" if listed else "") + (f" and {more} more" if more > 0 else "")
    for number, step in enumerate(plan.plan.steps):
        for pool in (step.source or step.model).pools:
            if id(pool) not in known:
                known.add(id(pool))
                yield pool, f", step {number} on {step.device}"


def _tensors_by_pool(imported: ImportedModel) -> dict[int, list[str]]:
    """The names of constants by the pool that they lie in; one without a name has that of the node that reads it."""
    main = imported.model.main
    readers: dict[int, str] = {}
    for operation, nodes in zip(main.operations, imported.operation_nodes, strict=False):
        for index in operation.inputs:
            readers.setdefault(index, next(filter(None, nodes), ""))
    tensors: defaultdict[int, list[str]] = defaultdict(list)
    for number, operand in enumerate(main.operands):
        if operand.lifetime == OperandLifeTime.CONSTANT_POOL:
            reader = readers.get(number, "")
            tensors[operand.location.pool_index].append(
                imported.operand_names[number] or (f"of {reader}" if reader else f"operand {number}")
            )
    return {index: list(dict.fromkeys(names)) for index, names in tensors.items()}


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
