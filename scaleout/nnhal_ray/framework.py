"""The framework of a host, to which calls are passed on: gRPC at its unix socket, HTTP at its port."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import aiohttp
import grpc
from yarl import URL

from nnhal.contexts import AsyncClosing
from nnhal.errors import NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import Call, HttpCall, HttpReply, ProtocolCall, ProtocolReply, Reply, refused
from nnhal_ray.protocol import SERVICE, STREAM, UNARY
from nnhal_service.serving.errors import ErrorKind, ServingError

_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_UNANSWERED = re.compile(r"^(failed to connect|Socket closed|recvmsg:|sendmsg:|Endpoint|Stream removed)|GOAWAY")
"""What gRPC itself says if there is no framework at the other end, or no longer."""
_PASSED_ON = ("traceparent", "triton_grpc_error")
"""The metadata that the framework gets. It is not told who the client is: a handle of the host means nothing there."""
_OWN_REQUEST_HEADERS = {"authorization", "connection", "content-length", "host", "transfer-encoding"}
"""Headers of a request that belong to one connection, or that this replica has answered for."""
_OWN_REPLY_HEADERS = {"connection", "content-length", "date", "server", "transfer-encoding"}
_AGAIN_SECONDS = 30.0
"""The time that an inference waits for a framework that was killed: Serve replaces a host that takes longer."""
_MOST_AGAIN = 3
"""How often an inference is asked again: it may be what kills the framework."""
_READY_SECONDS = 1.0
_PAUSE_SECONDS = 0.1


class HostFramework(AsyncClosing):
    """A client of a framework, for one event loop. It connects with the first call, and again when that is needed."""

    def __init__(self, directory: Path, find_address: Callable[[], str]) -> None:
        """``find_address`` returns the address of HTTP, which is another one when the framework is started again.

        It may take some time, and raise NnhalError if the framework is not there.
        """
        self._find_address = find_address
        self._channel = grpc.aio.insecure_channel(f"unix:{directory / 'inference.sock'}", options=_OPTIONS)
        # Messages stay bytes; of bytes ``bytes`` makes no copy.
        self._unary = {name: self._channel.unary_unary(f"/{SERVICE.full_name}/{name}", bytes, bytes) for name in UNARY}
        self._stream = self._channel.stream_stream(f"/{SERVICE.full_name}/{STREAM}", bytes, bytes)
        self._address = ""
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # none: a model may run as long as its client waits
        )

    async def forward(self, call: Call) -> Reply:
        """Pass a call on, and return the answer, which has ``is_unanswered`` if the framework is not there."""
        return await (self._over_grpc(call) if isinstance(call, ProtocolCall) else self._over_http(call))

    async def infer(self, call: Call) -> Reply:
        """Pass an inference on, and again if the framework ends before it answers, once it serves again.

        An inference changes nothing, so it may run twice; of a sequence, a framework that was started again has no
        state. Serve cancels this if the client waits no more.
        """
        reply, end, times = await self.forward(call), time.monotonic() + _AGAIN_SECONDS, 0
        while reply.is_unanswered and times < _MOST_AGAIN and time.monotonic() < end:
            if await self.is_ready(_READY_SECONDS):
                reply = await self.forward(call)
                times += 1
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
        return reply

    async def stream(self, messages: AsyncIterator[bytes], headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Pass a stream of requests on, each when the one before it has been answered. Raises grpc.aio.AioRpcError."""
        stream = self._stream(metadata=_passed_on(headers))  # type: ignore[call-arg]  # without an iterator one writes
        try:
            async for message in messages:
                with suppress(asyncio.InvalidStateError):  # it has ended, and reading says why
                    await stream.write(message)
                answer = await stream.read()
                if not isinstance(answer, bytes):
                    return
                yield answer
            await stream.done_writing()
            await stream.read()
        finally:
            stream.cancel()

    async def is_ready(self, seconds: float) -> bool:
        """Return whether the framework says within some time that it is ready."""
        call = ProtocolCall("ServerReady", wire.ServerReadyRequest().SerializeToString())
        reply = await self._over_grpc(call, seconds)
        return reply.is_ok and wire.ServerReadyResponse.FromString(reply.message).ready

    async def close(self) -> None:
        """Close the connections; calls that are under way fail."""
        await self._channel.close(None)
        await self._session.close()

    async def _over_grpc(self, call: ProtocolCall, seconds: float | None = None) -> ProtocolReply:
        try:
            passed_on = self._unary[call.method](call.message, timeout=seconds, metadata=_passed_on(call.headers))
            return ProtocolReply(await passed_on)
        except grpc.aio.AioRpcError as error:
            text = error.details() or ""
            return ProtocolReply(code=error.code(), text=text, is_unanswered=_UNANSWERED.search(text) is not None)

    async def _over_http(self, call: HttpCall) -> Reply:
        for _ in range(2):
            try:
                return await self._sent(call)
            except aiohttp.ClientConnectorError:  # it was started again, with another port; nothing has been sent
                self._address = ""
            except (aiohttp.ClientError, NnhalError):
                break
        text = "the framework does not answer; it is started again"
        return refused(call, ServingError(ErrorKind.UNAVAILABLE, text), is_unanswered=True)

    async def _sent(self, call: HttpCall) -> HttpReply:
        if not self._address:
            self._address = await asyncio.to_thread(self._find_address)
        url = URL(f"http://{self._address}{call.path}{'?' if call.query else ''}{call.query}", encoded=True)
        headers = {name: value for name, value in call.headers.items() if name not in _OWN_REQUEST_HEADERS}
        async with self._session.request(call.method, url, headers=headers, data=call.body or None) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_REPLY_HEADERS}
            return HttpReply(answer.status, kept, await answer.read())


def _passed_on(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, headers[key]) for key in _PASSED_ON if key in headers)
