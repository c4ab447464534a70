"""How many HTTP connections there may be, how long the server waits for a client, and how long heads may be.

uvicorn itself closes connections that are idle after a response, and waits for ever in all other cases. A connection
here stands between the transport and uvicorn's protocol, and calls only the methods of asyncio.Protocol. Some
requests are served here as a whole (``nnhal_hosting.whole_requests``): uvicorn sees nothing of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, cast

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send

from nnhal_hosting.shared_numbers import LocalNumber, SharedNumber
from nnhal_hosting.whole_requests import DirectWay, KeptHeads, UvicornConnection, WholeRequests


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server."""

    connections: int = 1024
    """How many there may be at a time."""
    stalled_seconds: float = 10
    """How long a client may take for a head, and for the next byte of a body or a response."""
    idle_seconds: float = 60
    """How long a connection may be open without a request."""
    head_bytes: int = 32 * 1024
    """How long the head of a request may be, with the trailers and whatever else is beside its body."""
    headers: int = 128
    """How many headers it may have, trailers among them."""


class ConnectionLimiter:
    """The limits and the open connections of one server. Only the server's loop uses it."""

    def __init__(
        self,
        limits: ConnectionLimits,
        connections: SharedNumber | None = None,
        whole_requests: WholeRequests | None = None,
    ) -> None:
        """``connections`` are those that are open, if other processes share the limit. ``whole_requests`` serves those
        requests that it knows how to.
        """
        self.limits = limits
        self.open = LocalNumber() if connections is None else connections
        self.whole_requests = whole_requests

    def protocol(self) -> type[asyncio.Protocol]:
        """The class of the server's connections, for uvicorn to make."""
        limiter, whole = self, self.whole_requests
        heads = None if whole is None else KeptHeads(whole, self.limits.headers, self.limits.head_bytes)

        class Connection(LimitedConnection):
            def __init__(self, *arguments: Any, **named: Any) -> None:
                uvicorns = UvicornConnection(*arguments, **named)
                super().__init__(limiter, uvicorns)
                if whole is not None and heads is not None:
                    self._direct = uvicorns.direct = DirectWay(self, uvicorns, whole, heads)

        return Connection

    def application(self, app: ASGIApp) -> ASGIApp:
        """The application, which tells each connection when a request of it is served."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            connection = _current.get(None)
            if connection is None:
                await app(scope, receive, send)
                return
            connection.begin_serving()
            try:
                await app(scope, receive, send)
            finally:
                connection.end_serving()

        return serve


_BESIDE_HEADER = 4
"""The bytes of a header beside its name and its value: a colon, a space and the end of the line."""
_LINGER_SECONDS = 1.0
_MOST_DISCARDED = 1 << 18


class _TooLargeError(Exception):
    """The head is too large. The message says what of it."""


class _Awaited(Enum):
    """What the client sends next."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()


class LimitedConnection(asyncio.Protocol):
    """A connection that ends if its client stalls, with 408 if the request can still be answered.

    A client that does not read its response stalls too. One connection too many is answered with 503, and a head that
    is too large with 431: of it, uvicorn sees nothing.
    """

    _transport: asyncio.Transport
    _timer: asyncio.Handle

    def __init__(self, limiter: ConnectionLimiter, protocol: asyncio.Protocol) -> None:
        self._limiter = limiter
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._awaited = _Awaited.REQUEST
        self._since = self._loop.time()
        self._unsent = 0
        self._served = 0
        self._is_lost = False
        self._refused = False
        self._piece = 0
        self._head_bytes = 0
        self._headers = 0
        self._beside = 0
        self._on_lost: list[Callable[[], None]] = []
        self._begun = 0
        """The requests that the protocol has been given and not served."""
        self._direct: DirectWay | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # a stream's; uvloop's is no subclass
        self._protocol.connection_made(transport)
        self._limiter.open.add(1)
        self._timer = self._loop.call_soon(self._look)
        if self._limiter.open.total > self._limiter.limits.connections:
            message = f"there are {self._limiter.limits.connections} connections, and no more may be"
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, message)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._discard(data)
            return
        if self._awaited is _Awaited.BODY:
            self._since = self._loop.time()
        if self._direct is not None and self._direct.takes(data, self._is_at_rest):
            return
        if self._parser is not None:
            try:
                self._feed(self._parser, data)
            except _TooLargeError as error:
                self._refuse_head(str(error))
                return
        _current.set(self)  # for the task of the request
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        if self._direct is not None:
            self._direct.pause_writing()
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._direct is not None:
            self._direct.resume_writing()
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.open.add(-1)
        self._timer.cancel()
        self._is_lost = True
        for callback in self._on_lost:
            callback()
        if self._direct is not None:
            self._direct.connection_lost()
        self._protocol.connection_lost(exc)

    def on_message_begin(self) -> None:
        """The parser has read the first byte of a request."""
        self._begun += 1
        self._expect(_Awaited.HEAD)
        self._head_bytes = self._headers = 0
        # Where in the piece the request begins is unknown, unless the piece begins with it.
        self._beside, self._piece = self._piece, 0

    def on_url(self, url: bytes) -> None:
        """The parser has read the target of a request, or a part of it."""
        self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header or a trailer."""
        self._headers += 1
        self._grow(len(name) + len(value) + _BESIDE_HEADER)

    def on_headers_complete(self) -> None:
        """The parser has read the head."""
        self._expect(_Awaited.BODY)
        self._beside = 0

    def on_body(self, _: bytes) -> None:
        """The parser has read a part of the body."""
        self._beside = 0

    def on_message_complete(self) -> None:
        """The parser has read the whole request."""
        self._expect(_Awaited.REQUEST)

    def begin_serving(self) -> None:
        """The application begins to serve a request."""
        self._served += 1

    def end_serving(self) -> None:
        """The application has written its response, which may not have been sent yet."""
        self._served -= 1
        self._begun -= 1
        self._since = self._loop.time()

    def begin_whole(self) -> None:
        """A request that uvicorn does not see has begun, with its head."""
        self._begun += 1
        self.begin_serving()
        self._expect(_Awaited.BODY)

    def end_whole(self) -> None:
        """Its body has come."""
        self._awaited = _Awaited.REQUEST

    @property
    def _is_at_rest(self) -> bool:
        """Whether the last request has been served, and the next one has not begun."""
        return not self._begun and self._parser is not None and self._awaited is _Awaited.REQUEST

    @contextmanager
    def watched(self, lost: Callable[[], None]) -> Iterator[None]:
        """A context during which ``lost`` is called when the connection ends; at once if it has."""
        if self._is_lost:
            lost()
        self._on_lost.append(lost)
        try:
            yield
        finally:
            self._on_lost.remove(lost)

    def _feed(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        """Have the parser read a piece. Raises _TooLargeError if the head becomes too large."""
        begins = self._awaited is _Awaited.REQUEST
        self._piece = len(data) if begins else 0
        if not begins:
            self._beside += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise _TooLargeError(str(error.__context__ or error)) from error
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._parser = None  # uvicorn answers it, and closes the connection
            return
        # Names, values and extensions that are not whole yet are no header, but are kept.
        if self._awaited is not _Awaited.REQUEST and self._beside > self._limiter.limits.head_bytes:
            raise self._too_long()

    def _grow(self, size: int) -> None:
        limits = self._limiter.limits
        self._head_bytes += size
        if self._head_bytes > limits.head_bytes:
            raise self._too_long()
        if self._headers > limits.headers:
            raise _TooLargeError(f"the request has more than {limits.headers} headers")

    def _too_long(self) -> _TooLargeError:
        limit = self._limiter.limits.head_bytes
        return _TooLargeError(f"the request has more than {limit} bytes beside its body")

    def _refuse_head(self, message: str) -> None:
        """Answer, and read on for a moment: a connection that is closed with bytes unread loses its answer."""
        self._refused = True
        self._parser = None
        self._beside = 0
        if self._served and self._awaited is not _Awaited.BODY:
            self._transport.abort()  # the answer to an earlier request is under way
            return
        self._respond(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _discard(self, data: bytes) -> None:
        self._beside += len(data)
        if self._beside > _MOST_DISCARDED:
            self._transport.close()

    def _expect(self, awaited: _Awaited) -> None:
        self._awaited = awaited
        self._since = self._loop.time()

    def _look(self) -> None:
        """End the connection if its time is up. One timer serves the whole connection, not one for each request."""
        now, limits = self._loop.time(), self._limiter.limits
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent or (not unsent and self._waits_for_server()):
            self._unsent, self._since = unsent, now
        idle = self._awaited is _Awaited.REQUEST and not unsent
        due = self._since + (limits.idle_seconds if idle else limits.stalled_seconds)
        if now < due:
            next_look = now + min(limits.stalled_seconds, limits.idle_seconds)
            self._timer = self._loop.call_at(min(due, next_look), self._look)
        elif unsent:
            self._transport.abort()
        elif self._awaited is _Awaited.HEAD:
            message = f"the head of the request was not whole within {limits.stalled_seconds:g} s"
            self._end(HTTPStatus.REQUEST_TIMEOUT, message)
        elif self._awaited is _Awaited.BODY and self._served:
            self._end(HTTPStatus.REQUEST_TIMEOUT, f"nothing of the body came for {limits.stalled_seconds:g} s")
        else:
            self._transport.close()

    def _waits_for_server(self) -> bool:
        """Whether the client has sent all that it can before the server goes on."""
        return self._served > 0 and (self._awaited is not _Awaited.BODY or not self._transport.is_reading())

    def _end(self, status: HTTPStatus, message: str) -> None:
        self._respond(status, message)
        self._transport.close()

    def _respond(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"error": message}, separators=(",", ":"))
        head = (
            f"HTTP/1.1 {status} {status.phrase}\r\ncontent-length: {len(body)}\r\ncontent-type: application/json\r\n"
            "connection: close\r\n\r\n"
        )
        self._transport.write((head + body).encode())


_current: ContextVar[LimitedConnection] = ContextVar("nnhal_http_connection")


def while_connected(lost: Callable[[], None]) -> AbstractContextManager[None]:
    """A context in which ``lost`` is called when the connection of the request that is served ends."""
    connection = _current.get(None)
    return nullcontext() if connection is None else connection.watched(lost)
