"""HTTP requests that are served as a whole, head and body, without an ASGI application.

Most clients send the same head again and again, so heads are kept by their bytes, with what the server made of them. So
are served requests of HTTP/1.1 with a Content-Length that keep their connection. All others are left to uvicorn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import httptools

_KEPT_HEADS = 1024
_LONGEST_HEAD = 2048
"""The longest head that is kept."""
_END_OF_HEAD = b"\r\n\r\n"
_NOT_WHOLE = (b"transfer-encoding", b"expect", b"upgrade", b"content-encoding")
"""Headers of requests whose body is not the bytes that follow."""


class Responder(Protocol):
    """The connection of a request, for its answer. Only the loop uses it."""

    peer: tuple[str, int] | None
    """The client's address; None if it is unknown."""
    user_is_admitted: bool
    """Whether the user who opened the client's end has been admitted, which stays so while the connection lives."""

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call back when the connection ends before the request has been served; at once if it has ended."""

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> None:
        """Answer; ``headers`` are those beside the length."""

    async def respond_in_pieces(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes, size: int
    ) -> None:
        """Answer as the client takes it, ``size`` bytes at a time."""


class Held(Protocol):
    """What is held for a request."""

    def release(self) -> None:
        """Give it back."""


class WholeRequests(Protocol):
    """What serves such requests."""

    start: bytes
    """How requests begin that are served so."""

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> Any:
        """What is to be kept of a head, for all requests with the same; None if they are not served so.

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
    except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError):
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
