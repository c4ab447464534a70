"""HTTP requests that are served as a whole, head and body, without an ASGI application.

Most clients send the same head again and again, so heads are kept by their bytes, with what the server made of them. So
are served requests of HTTP/1.1 with a Content-Length that keep their connection. All others are left to uvicorn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from nnhal_hosting.access import peer_name
from nnhal_hosting.http_heads import RefusedError, require_plain

_KEPT_HEADS = 1024
_MOST_GATHERED = HIGH_WATER_LIMIT
"""The longest body that is gathered from several pieces before it is served: as much as uvicorn reads ahead."""
_LONGEST_HEAD = 2048
"""The longest head that is kept."""
_END_OF_HEAD = b"\r\n\r\n"
_CLOSE = ((b"connection", b"close"),)
_NOT_WHOLE = (b"transfer-encoding", b"expect", b"upgrade", b"content-encoding")
"""Headers of requests whose body is not the bytes that follow."""


class Responder(Protocol):
    """The connection of a request, for its answer. Only the loop uses it."""

    user_is_admitted: bool
    """True if the user who opened the client's end has been admitted, which stays so while the connection lives."""

    @property
    def peer(self) -> str:
        """The client's address as gRPC writes it; empty if it is unknown."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call back when the connection ends before the request has been served; at once if it has ended."""

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> None:
        """Answer; ``headers`` are those beside the length."""

    async def respond_in_pieces(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes, size: int
    ) -> None:
        """Answer as the client takes it, ``size`` bytes at a time."""


class Held(Protocol):
    def release(self) -> None:
        """Give it back."""


class WholeRequests(Protocol):
    """Server of such requests."""

    start: bytes
    """How requests begin that are served so."""

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> Any:
        """Return what is to be kept of a head, for all requests with the same; None if they are not served so.

        ``headers`` are by their names in lower case, the first one of a name.
        """

    def admit(self, known: Any, length: int, connection: Responder) -> Held | None:
        """Admit a request with so many bytes of body, and hold what it takes; None leaves it to the application, which
        says why it is refused.
        """

    async def serve(self, known: Any, held: Any, body: bytes, connection: Responder) -> None:
        """Answer a request that has been admitted, with whatever it asks for, and release what is held for it. It
        raises nothing.
        """


class KnownHead(NamedTuple):
    """The head of a request, and where it ends."""

    known: Any
    """What was kept of it."""
    end: int
    """Its bytes in the piece that it begins."""
    length: int
    """The bytes of the body that follow."""


class KeptHeads:
    """The heads of requests that are served without an application."""

    def __init__(self, requests: WholeRequests, most_headers: int, most_bytes: int) -> None:
        self._start = requests.start
        self._known = requests.known
        self._most_headers = most_headers
        self._most_bytes = min(most_bytes, _LONGEST_HEAD)
        self._kept = lru_cache(_KEPT_HEADS)(self._read)

    def of(self, piece: bytes) -> KnownHead | None:
        """The head with which a piece begins, if it is whole."""
        if not piece.startswith(self._start):
            return None
        end = piece.find(_END_OF_HEAD, 0, self._most_bytes) + len(_END_OF_HEAD)
        return self._kept(piece[:end]) if end >= len(_END_OF_HEAD) else None

    def _read(self, head: bytes) -> KnownHead | None:
        read = read_head(head)
        if read is None or len(read.headers) > self._most_headers:
            return None
        lengths = [value for name, value in read.headers if name == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or any(name in _NOT_WHOLE for name, _ in read.headers):
            return None
        known = self._known(read.path, dict(reversed(read.headers)))
        return None if known is None else KnownHead(known, len(head), int(lengths[0]))


class WholeConnection(Protocol):
    """The connection, whose bytes are taken here or by uvicorn's protocol, which it is."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    tasks: set[asyncio.Task[None]]
    client: tuple[str, int] | None
    server_state: ServerState

    def begin_whole(self) -> None:
        """A request that uvicorn does not see has begun, of which more has to come."""

    def end_whole(self) -> None:
        """The rest of it has come."""

    def end_serving(self) -> None:
        """It has been answered."""


class DirectWay:
    """Serves the whole requests of one connection, each after the one before it, and answers them: a Responder."""

    def __init__(self, connection: WholeConnection, requests: WholeRequests, heads: KeptHeads) -> None:
        self.user_is_admitted = False
        self.is_serving = False
        """True if a request has begun and has not been answered."""
        self.closes = False
        """True if the connection is closed after the request that is served."""
        self.peer = ""
        self._connection = connection
        self._requests = requests
        self._heads = heads
        self._head: KnownHead | None = None
        """The head of a request whose body is not whole."""
        self._body = bytearray()
        """What has come of that."""
        self._admitted: Held | None = None
        self._lost: Callable[[], None] | None = None
        self._is_lost = False
        self._writable: asyncio.Future[None] | None = None
        """Has a result when the client has taken enough of an answer; None if it has."""

    def connection_made(self) -> None:
        """The client is known from now on."""
        self.peer = peer_name(self._connection.client)

    @property
    def is_gathering(self) -> bool:
        """Return whether the next bytes are of a body that is not whole."""
        return self._head is not None

    def take(self, data: bytes) -> int:
        """Take the request with which the bytes begin, or a part of it, and serve it once it is whole. Return how many
        bytes were taken; none if the request is not served so. No other request of the connection may be under way.
        """
        begins = self._head is None
        head = self._begin(data) if begins else self._head
        if head is None:
            return 0
        start = head.end if begins else 0
        end = start + head.length - len(self._body)
        body: bytes | bytearray = data[start:end]
        if end > len(data):
            if begins:
                self._connection.begin_whole()
            self._head = head
            self._body += body
            return len(data)
        if not begins:
            self._body += body
            body, self._head, self._body = self._body, None, bytearray()
            self._connection.end_whole()
        task = self._connection.loop.create_task(self._serve(head, bytes(body)))
        self._connection.tasks.add(task)
        task.add_done_callback(self._connection.tasks.discard)
        return end

    def _begin(self, data: bytes) -> KnownHead | None:
        """Admit the request with which the bytes begin."""
        head = self._heads.of(data) if self._writable is None else None
        if head is None or (head.length > _MOST_GATHERED and head.length > len(data) - head.end):
            return None
        self._admitted = self._requests.admit(head.known, head.length, self)
        if self._admitted is None:
            return None
        self.is_serving = True
        return head

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        if self._is_lost:
            lost()

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> None:
        connection = self._connection
        if not self._is_lost:
            close = _CLOSE if self.closes else ()
            given = (*connection.server_state.default_headers, *headers, *close)
            connection.transport.write(_head(status, given, len(content)) + content)

    async def respond_in_pieces(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes, size: int
    ) -> None:
        close = _CLOSE if self.closes else ()
        head = _head(status, (*self._connection.server_state.default_headers, *headers, *close), len(content))
        for start in range(0, len(content), size):
            if self._writable is not None:
                await self._writable
            if self._is_lost:
                return
            self._connection.transport.write(head + content[start : start + size])
            head = b""

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        self._writable = self._writable or self._connection.loop.create_future()

    def resume_writing(self) -> None:
        """The client has taken most of it."""
        if self._writable is not None and not self._writable.done():  # its task may have been cancelled
            self._writable.set_result(None)
        self._writable = None

    def connection_lost(self) -> None:
        self._is_lost = True
        self.resume_writing()
        if self._head is not None and self._admitted is not None:
            self._admitted.release()
        if self._lost is not None:
            self._lost()

    async def _serve(self, head: KnownHead, body: bytes) -> None:
        is_answered = False
        try:
            await self._requests.serve(head.known, self._admitted, body, self)
            is_answered = True
        finally:
            self._lost = None
            self.is_serving = False
            if self.closes or not is_answered:
                self._connection.transport.close()
            self._connection.end_serving()


@lru_cache(_KEPT_HEADS)
def _head(status: int, headers: tuple[tuple[bytes, bytes], ...], length: int) -> bytes:
    """The head of an answer; those of a second are mostly the same."""
    lines = [b"%s: %s\r\n" % line for line in headers]
    return b"%scontent-length: %d\r\n%s\r\n" % (STATUS_LINE[status], length, b"".join(lines))


class RequestHead(NamedTuple):
    """The head of a POST."""

    path: str
    headers: list[tuple[bytes, bytes]]
    """With names in lower case."""


def read_head(head: bytes) -> RequestHead | None:
    """Read the head of a POST that keeps its connection, by the parser that uvicorn has.

    Returns None if it is any other head, or if it does not end with the last of these bytes.
    """
    reader = _HeadReader()
    parser = httptools.HttpRequestParser(reader)
    try:
        parser.feed_data(head[:-1])
        ends_early = reader.is_complete
        parser.feed_data(head[-1:])
        path = httptools.parse_url(reader.url).path.decode("ascii")
        require_plain(parser.get_http_version(), reader.url, reader.headers)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError, RefusedError):
        return None
    if ends_early or not reader.is_complete or parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
        return None
    if not parser.should_keep_alive() or parser.should_upgrade():
        return None
    return RequestHead(unquote(path) if "%" in path else path, reader.headers)


class _HeadReader:
    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_complete = True
