"""A server of the protocol and its models, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import grpc
from google.protobuf.message import Message
from grpc import aio

from nnhal.contexts import AsyncClosing
from nnhal.errors import TransportError
from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types.layout import Dimensions
from nnhal_client.aio.binding import AsyncV2Binding
from nnhal_client.core.binding_memory import DomainMemoryHandle
from nnhal_client.v2.calls import (
    INFER,
    MODEL_CONFIG,
    MODEL_METADATA,
    OPTIONS,
    SERVICE,
    R,
    authorization,
    failure_of,
    serialized,
)
from nnhal_client.v2.described import V2Description
from nnhal_client.v2.messages import outputs_of


class AsyncV2Server(AsyncClosing):
    """As ``V2Server``, for asyncio. Use as a context. It connects with the first call."""

    def __init__(self, address: str, token: str, credentials: grpc.ChannelCredentials | None, concurrency: int) -> None:
        self.address = address
        self.concurrency = concurrency
        self._metadata = authorization(token)
        if credentials is None:
            self._channel = aio.insecure_channel(address, options=OPTIONS)
        else:
            self._channel = aio.secure_channel(address, credentials, options=OPTIONS)

    async def open(self, name: str, version: str = "") -> AsyncV2Model:
        """A model of the server, by default in the version that the server chooses."""
        request = wire.ModelMetadataRequest(name=name, version=version)
        description = await self.call(MODEL_METADATA, request)
        config = wire.ModelConfigResponse()
        with suppress(TransportError):  # only servers with this extension have optional inputs
            config = await self.call(MODEL_CONFIG, wire.ModelConfigRequest(name=name, version=version))
        return AsyncV2Model(self, description, config, version)

    async def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        """Call a method of the protocol. A task that is cancelled cancels its call."""
        name, kind = method
        try:
            stub = self._channel.unary_unary(SERVICE + name, serialized, kind.FromString)
            return cast(R, await stub(request, metadata=self._metadata, timeout=timeout))
        except aio.AioRpcError as error:
            raise failure_of(error, self.address) from error
        except aio.UsageError as error:  # gRPC raises it on a channel that has been closed
            raise TransportError(f"{self.address}: the session has been closed") from error

    async def close(self) -> None:
        """End the session."""
        await self._channel.close(None)


class AsyncV2Model(V2Description, AsyncClosing):
    """As ``V2Model``, for asyncio. Use as a context."""

    def __init__(
        self,
        server: AsyncV2Server,
        description: wire.ModelMetadataResponse,
        config: wire.ModelConfigResponse,
        version: str,
    ) -> None:
        super().__init__(description, config, version)
        self._server = server
        self._turns = asyncio.Semaphore(server.concurrency)

    async def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference. Raises as ``V2Model.run``."""
        request = self.request(inputs)
        async with self._turns:
            return outputs_of(await self._server.call(INFER, request))

    async def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemoryHandle] | None = None,
        direct: bool = True,
    ) -> AsyncV2Binding:
        """Memory for all inputs and outputs, as ``V2Model.bind``."""
        return AsyncV2Binding(self._server, self._turns, self, measure_timing, dimensions or {}, memories or {})

    async def unload(self) -> None:
        """Do nothing: the server holds nothing for this session. ``AsyncModel.unload`` releases the model."""

    async def close(self) -> None:
        """As ``unload``."""
