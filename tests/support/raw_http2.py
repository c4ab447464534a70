"""HTTP/2 by hand, for what no client of gRPC sends: frames of RFC 9113, headers that RFC 7541 codes as literals."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from tests.support.waiting import SECONDS

_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))
"""What a client begins with: the preface, and empty settings."""
_INITIAL_WINDOW_SIZE = 4
Header = tuple[bytes, bytes]


def connected(address: str, window: int | None = None) -> socket.socket:
    """A connection to ``unix:PATH`` or ``HOST:PORT``, on which the preface has been sent.

    ``window`` is how many bytes of each answer it takes; None for what is usual.
    """
    path = address.removeprefix("unix:")
    if path != address:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(path)
    else:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=SECONDS)
    connection.sendall(PREFACE)
    if window is not None:
        connection.sendall(frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)))
    return connection


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def opened(stream: int, *headers: Header, data: bytes | None = None) -> bytes:
    """The frames of a request; without ``data`` it has no body."""
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)
    begun = frame(_HEADERS, _END_HEADERS | (_END_STREAM if data is None else 0), stream, block)
    return begun if data is None else begun + frame(_DATA, _END_STREAM, stream, data)


def headers_of(path: bytes, changed: Iterable[Header] = ()) -> list[Header]:
    """The headers of a call of gRPC, some of them changed, and others added behind them."""
    changes = dict(changed)
    usual = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b":authority": b"localhost",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    return list((usual | changes).items())


def answer(connection: socket.socket, stream: int) -> bytes:
    """Return what the server sends up to the end of a stream, or of the connection."""
    with connection.makefile("rb") as received:
        said = b""
        while len(head := received.read(9)) == 9:
            payload = received.read(int.from_bytes(head[:3]))
            said += payload
            is_reset = head[3] in (3, 7)  # RST_STREAM or GOAWAY
            if is_reset or (int.from_bytes(head[5:]) == stream and head[3] < 2 and head[4] & _END_STREAM):
                break
        return said


def _text(value: bytes) -> bytes:
    """A string literal without Huffman coding."""
    if len(value) < 127:
        return bytes((len(value),)) + value
    rest, length = len(value) - 127, b"\x7f"
    while rest >= 128:
        length += bytes((rest % 128 | 128,))
        rest //= 128
    return length + bytes((rest,)) + value
