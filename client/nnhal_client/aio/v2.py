"""A server of the protocol, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal, cast

import grpc
from google.protobuf.message import Message
from grpc import aio

from nnhal.errors import TransportError
from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types.layout import Dimensions
from nnhal_client.aio.binding import AsyncV2Binding
from nnhal_client.memory import DomainMemory
from nnhal_client.v2.binding import Signature
from nnhal_client.v2.calls import INFER, MODEL_METADATA, OPTIONS, SERVICE, R, authorization, failure_of, serialized
from nnhal_client.v2.messages import outputs_of, request_of, tensor_of


class AsyncV2Server:
    """See V2Server."""

    def __init__(self, address: str, token: str, credentials: grpc.ChannelCredentials | None, concurrency: int) -> None:
        self.address = address
        self.concurrency = concurrency
        self._metadata = authorization(token)
        if credentials is None:
            self._channel = aio.insecure_channel(address, options=OPTIONS)
        else:
            self._channel = aio.secure_channel(address, credentials, options=OPTIONS)

    async def open(self, name: str, version: str = "") -> AsyncV2Model:
        """See V2Server."""
        request = wire.ModelMetadataRequest(name=name, version=version)
        return AsyncV2Model(self, await self.call(MODEL_METADATA, request), version)

    async def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        """Call a method of the protocol. A task that is cancelled cancels its call."""
        name, kind = method
        try:
            stub = self._channel.unary_unary(SERVICE + name, serialized, kind.FromString)
            return cast(R, await stub(request, metadata=self._metadata, timeout=timeout))
        except aio.AioRpcError as error:
            raise failure_of(error, self.address) from error
        except aio.UsageError as error:  # what gRPC raises on a channel that has been closed
            raise TransportError(f"{self.address}: the session has been closed") from error

    async def close(self) -> None:
        """End the session."""
        await self._channel.close(None)


class AsyncV2Model:
    """See V2Model."""

    transport: Literal["v2"] = "v2"

    def __init__(self, server: AsyncV2Server, description: wire.ModelMetadataResponse, version: str) -> None:
        self._server = server
        self._asked_version = version
        self._turns = asyncio.Semaphore(server.concurrency)
        self.name = description.name
        self.version = version or (description.versions[-1] if description.versions else "")
        self.inputs = tuple(tensor_of(tensor) for tensor in description.inputs)
        self.outputs = tuple(tensor_of(tensor) for tensor in description.outputs)

    async def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """See V2Model."""
        request = request_of(self.name, self._asked_version, {t.name: t for t in self.inputs}, inputs)
        async with self._turns:
            return outputs_of(await self._server.call(INFER, request))

    async def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> AsyncV2Binding:
        """See V2Model."""
        model = Signature(self.name, self._asked_version, self.inputs, self.outputs)
        return AsyncV2Binding(self._server, self._turns, model, measure_timing, dimensions or {}, memories or {})
