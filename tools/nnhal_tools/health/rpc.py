"""Asking gRPC's health service (``grpc.health.v1.Health/Check``) over a unix socket, in HTTP/2 by hand.

One request needs four frames: RFC 9113 has their form, RFC 7541 the coding of the headers. Of the answer only the
frame with the message counts, so that no headers have to be decoded.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator


class Unhealthy(Exception):  # noqa: N818 - what it says of a process, which need not be an error of this one
    """The process does not answer, or answers that it does not serve. The message says which."""


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS = 1, 4
_STREAM = 1
_HEADER = struct.Struct(">HBBBL")
"""Length (24 bits), type, flags, stream."""
_LONGEST_FRAME = 16384
"""What a peer may send to who has not allowed more."""
_EMPTY_MESSAGE = bytes(5)
"""Not compressed, no bytes: a HealthCheckRequest for the whole server."""
_STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


def require_serving(path: str, seconds: float) -> None:
    """Raise Unhealthy unless the server at a unix socket says SERVING; ``seconds`` is how long each wait may take."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(path)
            connection.sendall(_request())
            status = _status_of(_message(connection))
        except TimeoutError:
            raise Unhealthy(f"no answer within {seconds:g} s") from None
        except OSError as error:
            raise Unhealthy(f"{error.strerror or error}") from None
    if status != "SERVING":
        raise Unhealthy(f"it says {status}")


def _request() -> bytes:
    headers = b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _text(b"/grpc.health.v1.Health/Check"),  # :path
            b"\x01" + _text(b"localhost"),  # :authority
            b"\x0f\x10" + _text(b"application/grpc"),  # content-type
            b"\x00" + _text(b"te") + _text(b"trailers"),
        )
    )
    settings = _frame(_SETTINGS, 0, 0, b"")
    asked = _frame(_HEADERS, _END_HEADERS, _STREAM, headers) + _frame(_DATA, _END_STREAM, _STREAM, _EMPTY_MESSAGE)
    return _PREFACE + settings + asked


def _text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def _message(connection: socket.socket) -> bytes:
    """The gRPC message of the answer."""
    data = b""
    for kind, flags, stream, payload in _frames(connection):
        if kind == _GOAWAY or (kind == _RST_STREAM and stream == _STREAM):
            break
        if stream != _STREAM:
            continue
        if kind == _DATA:
            data += payload
            if len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5]):
                return data[5:]
        if flags & _END_STREAM and kind in (_DATA, _HEADERS):
            break
    raise Unhealthy("it answers without a status: expected gRPC's health service")


def _frames(connection: socket.socket) -> Iterator[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of what comes, until the peer closes."""
    with connection.makefile("rb") as stream:
        while len(header := stream.read(_HEADER.size)) == _HEADER.size:
            high, low, kind, flags, number = _HEADER.unpack(header)
            length = high << 8 | low
            if length > _LONGEST_FRAME:
                raise Unhealthy(f"a frame of {length} bytes: expected gRPC")
            yield kind, flags, number & 0x7FFFFFFF, stream.read(length)


def _status_of(message: bytes) -> str:
    """The status of a HealthCheckResponse, whose only field is number 1, a small integer."""
    number = message[1] if len(message) == 2 and message[0] == 0x08 else 0
    return _STATUSES.get(number, str(number))
