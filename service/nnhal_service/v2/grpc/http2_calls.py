"""Calls of gRPC over HTTP/2."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

from nnhal.types import NO_DEADLINE
from nnhal_hosting.http2 import Header, Stream
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.call_heads import (
    BEGUN,
    CONTENT_TYPE,
    ENCODINGS,
    OK,
    TIMEOUT,
    Headers,
    NotGrpcError,
    head_of_call,
    status_of,
    timeout_of,
    trailers_of,
)
from nnhal_service.v2.grpc.calls import BrokenStreamError, CallHead, Metadata, Method, deadline_in
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
        kept: _KeptHead | None = stream.peer.kept
        if kept is None or kept.headers != stream.headers:
            try:
                kept = _head_of(stream.headers, kept)
            except NotGrpcError as error:
                stream.respond(((b":status", error.status),), is_last=True)
                stream.flush()
                return
            except ServingError as error:
                _refuse(stream, error)
                return
            stream.peer.kept = kept
        method = self._methods.get(kept.head.path)
        if method is None:
            _refuse(stream, ServingError(ErrorKind.UNSUPPORTED, "no such method"))
            return
        stream.user = call = Http2Call(self, stream, kept.head, method)
        call.begin()


class Http2Call:
    """A call, and the GrpcContext of what serves it."""

    __slots__ = (
        "_calls", "_has_begun", "_incoming", "_is_answered", "_is_served", "_method", "_reader", "_reason", "_stream",
        "_task", "_timer", "_trailers", "deadline_ns", "head", "peer",
    )  # fmt: skip

    def __init__(self, calls: Http2Calls, stream: Stream, head: CallHead, method: Method) -> None:
        self._calls = calls
        self._stream = stream
        self.head = head
        self.peer = stream.peer
        self._method = method
        self._incoming: IncomingMessages | None = None
        """None as long as there is but the one message that has come with the head."""
        self._trailers: tuple[Header, ...] = OK
        self._task: asyncio.Task[None] | None = None
        self._reader: asyncio.Future[bytes | None] | None = None
        self._reason: ServingError | None = None
        """Ends the call in place of what serves it."""
        self._has_begun = self._is_answered = self._is_served = False
        self.deadline_ns = NO_DEADLINE
        self._timer: asyncio.TimerHandle | None = None

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self._trailers = (*OK, *trailers_of(metadata))

    async def read(self) -> bytes | None:
        reader: asyncio.Future[bytes | None] = self._calls.loop.create_future()
        self._reader = reader
        incoming = self._go_on()
        if not reader.done():
            self._stream.flush()  # the client may wait for a window
        message = await reader
        incoming.release()  # whoever reads it charges it now
        return message

    async def write(self, message: bytes) -> None:
        self._send(message)
        self._stream.flush()
        await self._stream.drained()

    def begin(self) -> None:
        """Begin to serve it."""
        method, stream, first = self._method, self._stream, self._stream.first
        size, most = len(first) - PREFIX.size, self._calls.message_bytes
        if self.head.timeout is not None:
            self.deadline_ns = deadline_in(self.head.timeout)
            self._timer = self._calls.loop.call_later(self.head.timeout, self._expire)
        if method.admit is not None:
            try:
                method.admit(self)
            except ServingError as error:
                self._fail(error)
                return
        if method.stream is not None:
            self._start(self._serve())
        elif stream.is_whole and size >= 0 and PREFIX.unpack_from(first) == (0, size) and (most < 0 or size <= most):
            # One plain message, and nothing else: so come most requests.
            stream.first = b""
            self._start(self._answer(first[PREFIX.size :]))
        elif first or stream.is_whole:
            self._go_on()
        else:
            stream.wait_for_client()

    def receive(self, data: bytes, is_last: bool) -> None:
        if self._incoming is None:
            self._stream.first += data
        else:
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
        if self._incoming is not None:
            self._incoming.release()
        if self._task is not None and not self._is_answered:
            self._task.cancel()

    def _go_on(self) -> IncomingMessages:
        """Hand on the next message, if it has come."""
        incoming = self._incoming
        if incoming is None:
            stream, first = self._stream, self._stream.first
            incoming = self._incoming = IncomingMessages(stream, self.head.encoding, self._calls.message_bytes)
            stream.first = b""
            incoming.add(first)
        try:
            message = incoming.cut(self._calls.budget)
            if message is None and not self._stream.is_whole:
                if incoming.has_begun or self._reader is None:
                    self._stream.wait_for_client()
                return incoming
            if message is None and incoming.has_begun:
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
            return incoming
        self._stream.go_on()
        reader, self._reader = self._reader, None
        if reader is None:
            assert message is not None
            self._start(self._answer(message))
        elif not reader.done():
            reader.set_result(message)
        return incoming

    def _start(self, serving: Coroutine[Any, Any, None]) -> None:
        self._task = task = self._calls.loop.create_task(serving)
        self._calls.tasks.add(task)
        task.add_done_callback(self._calls.tasks.discard)

    async def _answer(self, message: bytes) -> None:
        """Serve a unary call. Its task ends when the client has the answer."""
        self._is_served = True
        method, limit, stream = self._method, self._method.limit, self._stream
        assert method.unary is not None
        try:
            if self._incoming is not None:
                self._incoming.release()  # whoever serves it charges it now
            if limit.open >= limit.most:
                raise limit.refusal()
            limit.open += 1
            try:
                answer = method.unary(message, self)
                del message
                response = await answer
            finally:
                limit.open -= 1
        except Exception as error:
            self._fail(self._reason or answer_for(error, method.name))
        except asyncio.CancelledError:
            self._fail_by_reason()
            raise
        else:
            self._is_answered = True
            if self._timer is None and self._incoming is None:
                stream.user = None  # its end does not matter any more
            if len(response) <= _JOINED_BYTES:
                stream.answer(BEGUN, PREFIX.pack(0, len(response)) + response, self._trailers)
            else:
                self._send(response)
                self._finish()
            del response
        if stream.is_open:
            await stream.drained()

    async def _serve(self) -> None:
        """Serve a stream."""
        self._is_served = True
        assert self._method.stream is not None
        try:
            with self._method.limit:
                await self._method.stream(self)
        except Exception as error:
            self._fail(self._reason or answer_for(error, self._method.name))
        except asyncio.CancelledError:
            self._fail_by_reason()
            raise
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
        self._method.note_refused(error, self)
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
        if self._task is None or not self._is_served:
            self._fail(reason)
        else:
            self._reason = reason
        if self._task is not None:
            self._task.cancel()

    def _fail_by_reason(self) -> None:
        if self._reason is not None:
            self._fail(self._reason)


class _KeptHead(NamedTuple):
    """The head of the last call of a connection."""

    headers: Headers
    head: CallHead
    timeout_at: int
    """Which header gives the call its time; -1 for none."""


def _head_of(headers: Headers, last: _KeptHead | None) -> _KeptHead:
    """The head of a call. It is read anew if more than its time is not the last one's.

    Raises as ``head_of_call``.
    """
    if last is not None and last.timeout_at >= 0 and len(headers) == len(last.headers):
        at, (name, value) = last.timeout_at, headers[last.timeout_at]
        if name == TIMEOUT and headers[:at] == last.headers[:at] and headers[at + 1 :] == last.headers[at + 1 :]:
            return _KeptHead(headers, last.head._replace(timeout=timeout_of(value)), at)
    head = head_of_call(headers)
    places = [at for at, (name, _) in enumerate(headers) if name == TIMEOUT]
    return _KeptHead(headers, head, places[0] if len(places) == 1 else -1)


def _refuse(stream: Stream, error: ServingError) -> None:
    """Answer with a status and no message."""
    encodings = (ENCODINGS,) if error.kind is ErrorKind.UNSUPPORTED else ()
    stream.respond(((b":status", b"200"), CONTENT_TYPE, *status_of(error), *encodings), is_last=True)
    stream.flush()
