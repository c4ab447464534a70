"""Calls of gRPC over HTTP/2."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from nnhal_hosting.http2 import Header, Stream
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.call_heads import (
    BEGUN,
    CONTENT_TYPE,
    ENCODINGS,
    OK,
    CallHead,
    Headers,
    NotGrpcError,
    head_of_call,
    status_of,
    trailers_of,
)
from nnhal_service.v2.grpc.calls import BrokenStreamError, Metadata, Method
from nnhal_service.v2.grpc.incoming import PREFIX, IncomingMessages
from nnhal_service.v2.grpc.statuses import answer_for

_JOINED_BYTES = 1 << 16
"""The longest answer that is copied to be sent with its prefix."""


class Http2Calls:
    """The calls of one server. It belongs to the loop's thread."""

    def __init__(self, methods: Mapping[str, Method], budget: RequestMemoryBudget, message_bytes: int) -> None:
        """``budget`` is charged with messages while they come; ``message_bytes`` is the longest one, -1 for any."""
        self._methods = {path.encode(): method for path, method in methods.items()}
        self.budget = budget
        self.message_bytes = message_bytes
        self.tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()

    def open(self, stream: Stream) -> None:
        """Serve a stream, or refuse it."""
        try:
            head = _head_of(stream)
        except NotGrpcError as error:
            stream.respond(((b":status", error.status),), is_last=True)
            stream.flush()
            return
        except ServingError as error:
            _refuse(stream, error)
            return
        method = self._methods.get(head.path)
        if method is None:
            _refuse(stream, ServingError(ErrorKind.UNSUPPORTED, "no such method"))
            return
        call = Http2Call(self, stream, head, method)
        stream.user = call
        call.begin()


class Http2Call:
    """A call, and the GrpcContext of what serves it."""

    __slots__ = (
        "_calls", "_deadline", "_has_begun", "_head", "_incoming", "_is_answered", "_method", "_reader", "_reason",
        "_stream", "_task", "_timer", "_trailers",
    )  # fmt: skip

    def __init__(self, calls: Http2Calls, stream: Stream, head: CallHead, method: Method) -> None:
        self._calls = calls
        self._stream = stream
        self._head = head
        self._method = method
        self._incoming = IncomingMessages(stream, head.encoding, calls.message_bytes)
        self._trailers: tuple[Header, ...] = OK
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.Future[bytes | None] | None = None
        self._reason: ServingError | None = None
        """Ends the call in place of what serves it."""
        self._has_begun = self._is_answered = False
        self._deadline = self._timer = None
        if head.timeout is not None:
            self._deadline = calls.loop.time() + head.timeout
            self._timer = calls.loop.call_at(self._deadline, self._expire)

    @property
    def user_is_admitted(self) -> bool:
        return self._stream.peer.user_is_admitted

    @user_is_admitted.setter
    def user_is_admitted(self, value: bool) -> None:
        self._stream.peer.user_is_admitted = value

    def peer(self) -> str:
        return self._stream.peer.name

    def invocation_metadata(self) -> Metadata:
        return self._head.metadata

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._calls.loop.time())

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self._trailers = (*OK, *trailers_of(metadata))

    async def read(self) -> bytes | None:
        reader: asyncio.Future[bytes | None] = self._calls.loop.create_future()
        self._reader = reader
        self._go_on()
        if not reader.done():
            self._stream.flush()  # the client may wait for a window
        message = await reader
        self._incoming.release()  # whoever reads it charges it now
        return message

    async def write(self, message: bytes) -> None:
        self._send(message)
        self._stream.flush()
        await self._stream.drained()

    def begin(self) -> None:
        """Begin to serve it."""
        try:
            self._method.admit_early(self)
        except ServingError as error:
            self._fail(error)
            return
        if self._method.stream is not None:
            self._start(self._serve())
        elif not self._stream.is_whole:
            self._stream.wait_for_client()
        else:
            self._go_on()

    def receive(self, data: bytes, is_last: bool) -> None:
        self._incoming.add(data)
        if self._reader is not None or (self._task is None and not self._is_answered):
            self._go_on()

    def give_up(self, why: str) -> None:
        if self._stream.is_sent:
            self._end(ServingError(ErrorKind.RESOURCE_EXHAUSTED, f"the call waits for its client: {why}"))
        else:
            self._stream.reset()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._incoming.release()
        if self._task is not None and not self._is_answered:
            self._task.cancel()

    def _go_on(self) -> None:
        """Hand on the next message, if it has come."""
        try:
            message = self._incoming.cut(self._calls.budget)
            if message is None and not self._stream.is_whole:
                if self._incoming.has_begun or self._reader is None:
                    self._stream.wait_for_client()
                return
            if message is None and self._incoming.has_begun:
                raise BrokenStreamError(ErrorKind.INVALID_ARGUMENT, "the request ends within a message")
            if message is None and self._reader is None:
                raise ServingError(ErrorKind.INVALID_ARGUMENT, "a call without a request, expected one message")
        except ServingError as error:
            self._stream.go_on()
            reader, self._reader = self._reader, None
            if reader is None:
                self._fail(error)
            elif not reader.done():
                reader.set_exception(error)
            return
        self._stream.go_on()
        reader, self._reader = self._reader, None
        if reader is None:
            assert message is not None
            self._start(self._answer(message))
        elif not reader.done():
            reader.set_result(message)

    def _start(self, serving: Coroutine[Any, Any, None]) -> None:
        self._task = task = self._calls.loop.create_task(serving)
        self._calls.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        if task.cancelled() and self._reason is not None:
            self._fail(self._reason)

    async def _answer(self, message: bytes) -> None:
        """Serve a unary call. Its task ends when the client has the answer."""
        try:
            self._incoming.release()  # whoever serves it charges it now
            answer = self._method.answer(message, self)
            del message
            response = await answer
        except Exception as error:
            self._fail(self._reason or answer_for(error, self._method.name))
        else:
            self._send(response)
            del response
            self._finish()
        await self._stream.drained()

    async def _serve(self) -> None:
        """Serve a stream."""
        try:
            await self._method.serve(self)
        except Exception as error:
            self._fail(self._reason or answer_for(error, self._method.name))
        else:
            self._begin()
            self._finish()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._stream.respond(BEGUN)

    def _send(self, message: bytes) -> None:
        self._begin()
        prefix = PREFIX.pack(0, len(message))
        if len(message) <= _JOINED_BYTES:
            self._stream.send(prefix + message)
        else:
            self._stream.send(prefix)
            self._stream.send(message)

    def _finish(self) -> None:
        self._is_answered = True
        self._stream.end(self._trailers)
        self._stream.flush()

    def _fail(self, error: ServingError) -> None:
        if self._has_begun:
            self._trailers = status_of(error)
            self._finish()
        elif not self._is_answered:
            self._is_answered = True
            _refuse(self._stream, error)

    def _expire(self) -> None:
        self._end(ServingError(ErrorKind.DEADLINE_EXCEEDED, "the deadline of the call has passed"))

    def _end(self, reason: ServingError) -> None:
        """End the call, whatever it does."""
        if self._is_answered:
            return
        if self._task is None:
            self._fail(reason)
        else:
            self._reason = reason
            self._task.cancel()


def _head_of(stream: Stream) -> CallHead:
    """The head of a call. Most calls of a connection have the same, which is read once."""
    kept: tuple[Headers, CallHead] | None = stream.peer.kept
    if kept is not None and kept[0] == stream.headers:
        return kept[1]
    head = head_of_call(stream.headers)
    stream.peer.kept = (stream.headers, head)
    return head


def _refuse(stream: Stream, error: ServingError) -> None:
    """Answer with a status and no message."""
    encodings = (ENCODINGS,) if error.kind is ErrorKind.UNSUPPORTED else ()
    stream.respond(((b":status", b"200"), CONTENT_TYPE, *status_of(error), *encodings), is_last=True)
    stream.flush()
