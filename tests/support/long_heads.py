"""Requests of HTTP whose heads are too large, sent as fast as the server takes them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice, repeat

_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = 1 << 16
_PIECES = 256
"""16 MiB in all, which no server should read."""


def _endless(begin: bytes, part: bytes) -> Iterator[bytes]:
    """A beginning, and the part again and again."""
    yield begin
    yield from repeat(part * (_PIECE // len(part)), _PIECES)


LONG_HEADS = {
    "a long target": (b"GET /", b"a"),
    "a long name of a header": (_REQUEST, b"a"),
    "a long value of a header": (_REQUEST + b"a: ", b"b"),
    "long headers": (_REQUEST, b"a: " + b"b" * 1000 + b"\r\n"),
    "many headers": (_REQUEST, b"a: b\r\n"),
    "a long extension of a chunk": (_CHUNKED + b"4;", b"a"),
    "a long trailer": (_CHUNKED + b"0\r\na: ", b"b"),
    "many trailers": (_CHUNKED + b"0\r\n", b"a: b\r\n"),
}
"""What to send first, and what then without an end."""


def answer_to(address: str, name: str) -> bytes:
    """Send one of LONG_HEADS to HOST:PORT until the server has enough of it, and return its answer, empty if none."""
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), 60)) as connection:
        for piece in islice(_endless(*LONG_HEADS[name]), _PIECES):
            try:
                connection.sendall(piece)
            except OSError:
                break
        else:
            raise AssertionError(f"the server has read {_PIECES * _PIECE} bytes of {name}")
        answer = b""
        with suppress(ConnectionResetError):
            while received := connection.recv(_PIECE):
                answer += received
        return answer
