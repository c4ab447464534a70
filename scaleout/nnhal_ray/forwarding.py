"""Passing calls on to the framework of the host, over gRPC at its unix socket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import grpc
from google.protobuf.message import Message

from nnhal.contexts import AsyncClosing
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import ProtocolCall, ProtocolReply
from nnhal_ray.protocol import SERVICE, UNARY

_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_UNANSWERED = re.compile(r"^(failed to connect|Socket closed|recvmsg:|sendmsg:|Endpoint|Stream removed)|GOAWAY")
"""What gRPC itself says if there is no framework at the other end, or no longer."""
_SAME = bytes
"""Messages stay bytes; of bytes this makes no copy."""
_PASSED_ON = ("traceparent",)
"""The metadata that the framework gets. It is not told who the client is: a handle of the host means nothing there."""


class Forwarder(AsyncClosing):
    """A channel to a framework, for one event loop. It connects with the first call, and again when that is needed."""

    def __init__(self, framework: Path) -> None:
        """``framework`` is the directory of the framework."""
        self._channel = grpc.aio.insecure_channel(f"unix:{framework / 'inference.sock'}", options=_OPTIONS)
        self._calls = {name: self._channel.unary_unary(f"/{SERVICE.full_name}/{name}", _SAME, _SAME) for name in UNARY}

    async def forward(self, call: ProtocolCall, timeout: float | None = None) -> ProtocolReply:
        """Pass a call on, and return the framework's answer with its status and text. ``timeout`` is in seconds."""
        try:
            metadata = _passed_on(call.metadata)
            return ProtocolReply(await self._calls[call.method](call.message, timeout=timeout, metadata=metadata))
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            return ProtocolReply(
                code=error.code(), details=details, is_unanswered=_UNANSWERED.search(details) is not None
            )

    async def ask(self, method: str, request: Message, timeout: float | None = None) -> ProtocolReply:
        """Call a method on the host's own behalf."""
        return await self.forward(ProtocolCall(method, request.SerializeToString()), timeout)

    async def is_ready(self, timeout: float) -> bool:
        """Whether the framework says within ``timeout`` seconds that it is ready."""
        reply = await self.ask("ServerReady", wire.ServerReadyRequest(), timeout)
        return reply.is_ok and wire.ServerReadyResponse.FromString(reply.message).ready

    async def close(self) -> None:
        """Close the channel; calls that are under way fail."""
        await self._channel.close(None)


def _passed_on(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, metadata[key]) for key in _PASSED_ON if key in metadata)
