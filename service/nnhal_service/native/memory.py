"""AllocateMemory, CopyMemory and FreeMemory, and what bindings make of such memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import grpc

from nnhal.codec import memory_from_wire, memory_to_wire
from nnhal.errors import HalError, TransportError, invalid_argument
from nnhal.types import ErrorStatus, Memory
from nnhal.types.memory import NOWHERE
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.client import Binding, Client, Clients
from nnhal_service.native.convert import binding_from_wire
from nnhal_service.runtime import LoadedModel, TensorBinding
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate


class MemoryServicer:
    """The part of FrameworkService that is about memory for certain inputs and outputs."""

    _clients: Clients

    @answers
    def AllocateMemory(
        self, request: wire.AllocateMemoryRequest, context: grpc.ServicerContext
    ) -> wire.AllocateMemoryResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        roles = [
            ModelRole(client.model(role.model).original, role.is_output, role.index, role.probability)
            for role in request.roles
        ]
        memory = allocate(roles, tuple(request.dimensions))
        handle = client.add_memory(memory)
        answer = wire.AllocateMemoryResponse(memory=handle, device=memory.device)
        if memory.host is not None:
            try:
                answer.host.CopyFrom(memory_to_wire(memory.host, client.descriptors.offer))
            except HalError:
                client.free_memory(handle)
                raise
        return answer

    @answers
    def CopyMemory(self, request: wire.CopyMemoryRequest, context: grpc.ServicerContext) -> wire.CopyMemoryResponse:
        """See framework.proto."""
        client = self._clients.of(context)
        source, destination = (_end(client, end, what) for end, what in _ends(request))
        with _reachable():
            if isinstance(destination, AllocatedMemory):
                if isinstance(source, AllocatedMemory):
                    destination.copy_from_other(source)
                else:
                    destination.copy_from(source)
            elif isinstance(source, AllocatedMemory):
                source.copy_to(destination)
            else:
                invalid_argument("both ends are the client's own memory, expected one of AllocateMemory at least")
        return wire.CopyMemoryResponse()

    @answers
    def FreeMemory(self, request: wire.FreeMemoryRequest, context: grpc.ServicerContext) -> wire.FreeMemoryResponse:
        """See framework.proto."""
        self._clients.of(context).free_memory(request.memory)
        return wire.FreeMemoryResponse()


def bindings_from_wire(
    client: Client, model: LoadedModel, messages: Sequence[wire.TensorBinding], is_output: bool
) -> list[TensorBinding]:
    """Decode bindings, with the memory that they name.

    Raises INVALID_ARGUMENT where there is no such memory, it was allocated for other uses, or has a location too.
    """
    prepared = model.original
    tensors = prepared.imported.outputs if is_output else prepared.imported.inputs
    indexes = {tensor.name: index for index, tensor in enumerate(tensors)}
    bindings = []
    for message in messages:
        binding = binding_from_wire(message)
        if message.memory:
            memory = client.memory(message.memory)
            if binding.location != NOWHERE:
                invalid_argument(f"{message.name!r} has memory of its own and {binding.location}, expected no location")
            if message.name in indexes:  # else binding refuses the name
                memory.description.require_role(prepared, is_output, indexes[message.name], binding.dimensions)
            binding = replace(binding, memory=memory)
        bindings.append(binding)
    return bindings


def keeping(binding: Binding, client: Client, bindings: Iterable[TensorBinding]) -> Binding:
    """The binding, which keeps the memory that it uses. Raises INVALID_ARGUMENT where some was freed meanwhile."""
    try:
        for tensor in bindings:
            if isinstance(tensor.memory, AllocatedMemory):
                client.memories.keep(tensor.memory, binding)
    except HalError:
        binding.close()
        raise
    return binding


@contextmanager
def _reachable() -> Iterator[None]:
    """What calls a device: DEVICE_UNAVAILABLE where that is gone."""
    try:
        yield
    except TransportError as error:
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error


def _ends(request: wire.CopyMemoryRequest) -> tuple[tuple[wire.MemoryEnd, str], tuple[wire.MemoryEnd, str]]:
    return (request.source, "source"), (request.destination, "destination")


def _end(client: Client, end: wire.MemoryEnd, what: str) -> AllocatedMemory | Memory:
    kind = end.WhichOneof("end")
    if kind is None:
        invalid_argument(f"a copy without a {what}")
    if kind == "memory":
        return client.memory(end.memory)
    return memory_from_wire(end.host, client.descriptors.get)
