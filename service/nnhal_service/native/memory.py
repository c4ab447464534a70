"""AllocateMemory, CopyMemory and FreeMemory: memory for certain inputs and outputs of models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

import grpc

from nnhal.codec import memory_from_wire, memory_to_wire
from nnhal.codec.bounds import MAX_ROLES, at_most
from nnhal.errors import NnhalError, invalid_argument
from nnhal.types import Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import gone_is_unavailable, growing_from_wire
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import LoadedModel
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate


class MemoryServicer:
    """The part of FrameworkService (framework.proto) that allocates memory and copies to and from it."""

    _sessions: NativeSessions

    @answers
    def AllocateMemory(
        self, request: wire.AllocateMemoryRequest, context: grpc.ServicerContext
    ) -> wire.AllocateMemoryResponse:
        session = self._sessions.of(context)
        asked = at_most(MAX_ROLES, request.roles, "roles")
        models = [session.model(role.model) for role in asked]
        roles = [_role(model, role) for model, role in zip(models, asked, strict=True)]
        try:
            dimensions = tuple(request.dimensions)
            memory = allocate(roles, dimensions, _largest(dimensions, growing_from_wire(request.growing)))
        except NnhalError as error:
            for model in models:
                model.require_loaded(error)
            raise
        with ExitStack() as undo:
            handle = session.own_memory(memory, undo)
            answer = wire.AllocateMemoryResponse(memory=handle, device=memory.device)
            if memory.host is not None:
                answer.host.CopyFrom(memory_to_wire(memory.host, partial(session.descriptors.offer, owner=handle)))
            undo.pop_all()
        return answer

    @answers
    def CopyMemory(self, request: wire.CopyMemoryRequest, context: grpc.ServicerContext) -> wire.CopyMemoryResponse:
        session = self._sessions.of(context)
        if request.empty:
            with gone_is_unavailable():
                session.memory(request.destination.memory).become_empty(tuple(request.empty))
            return wire.CopyMemoryResponse()
        source, destination = (_end(session, end, what) for end, what in _ends(request))
        dimensions = tuple(request.dimensions)
        if dimensions and (isinstance(source, AllocatedMemory) or not isinstance(destination, AllocatedMemory)):
            invalid_argument(
                f"a copy with dimensions {list(dimensions)}, which only a source takes that is the client's memory"
            )
        with gone_is_unavailable():
            if isinstance(destination, AllocatedMemory):
                if isinstance(source, AllocatedMemory):
                    destination.copy_from_other(source)
                else:
                    destination.copy_from(source, dimensions)
            elif isinstance(source, AllocatedMemory):
                source.copy_to(destination)
            else:
                invalid_argument("both ends are the client's own memory, expected one of AllocateMemory at least")
        return wire.CopyMemoryResponse()

    @answers
    def FreeMemory(self, request: wire.FreeMemoryRequest, context: grpc.ServicerContext) -> wire.FreeMemoryResponse:
        self._sessions.of(context).free_memory(request.memory)
        return wire.FreeMemoryResponse()


def _largest(dimensions: Dimensions, growing: Mapping[int, int | None]) -> Dimensions:
    """The most that dimensions may become; empty if none grows. Raises INVALID_ARGUMENT."""
    if any(dimensions[axis : axis + 1] != (0,) for axis in growing):
        invalid_argument(f"memory that grows along axes {sorted(growing)} of {list(dimensions)}, expected 0 there")
    return tuple(growing.get(axis, length) or 0 for axis, length in enumerate(dimensions)) if growing else ()


def _role(model: LoadedModel, asked: wire.MemoryRole) -> ModelRole:
    """A use of memory. Raises INVALID_ARGUMENT for an input or output that the model shows to no user."""
    role = ModelRole(model.original, asked.is_output, asked.index, asked.probability)
    imported = model.original.imported
    count = len(imported.outputs if asked.is_output else imported.inputs)
    if asked.index >= count:
        invalid_argument(f"a role of {role}, the model has {count}")
    return role


def _ends(request: wire.CopyMemoryRequest) -> tuple[tuple[wire.MemoryEnd, str], tuple[wire.MemoryEnd, str]]:
    return (request.source, "source"), (request.destination, "destination")


def _end(session: NativeSession, end: wire.MemoryEnd, what: str) -> AllocatedMemory | Memory:
    kind = end.WhichOneof("end")
    if kind is None:
        invalid_argument(f"a copy without a {what}")
    if kind == "memory":
        return session.memory(end.memory)
    return memory_from_wire(end.host, session.descriptors.get)
