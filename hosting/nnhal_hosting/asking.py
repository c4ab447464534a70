"""Asking a server whether it answers, over HTTP/1.1 or gRPC, in bytes that are put together by hand.

Containers ask every few seconds, so nothing here imports gRPC, and TLS only if it is needed. A request of gRPC needs
four frames: RFC 9113 has their form, RFC 7541 the coding of the headers. Of the answer only the frame with the message
counts, so that no headers have to be decoded.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

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
_CHECK = b"/grpc.health.v1.Health/Check"
_UNIX = "unix:"
_PORTS = {"http": 80, "https": 443}
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LONGEST_LINE = 4096
_NO_STATUS = "it answers without a status: expected gRPC's health service"


class Unhealthy(Exception):  # noqa: N818 - what it says of a process, which need not be an error of this one
    """The process does not answer, or answers that it does not serve. The message says which."""


class Silent(Unhealthy):
    """Nobody listens, or nobody answers."""


def require_serving(path: str, seconds: float) -> None:
    """Raise Unhealthy unless the server at a unix socket says SERVING; ``seconds`` is how long each wait may take."""
    message = _answer(f"{_UNIX}{path}", False, _CHECK, seconds)
    if message is None:
        raise Unhealthy(_NO_STATUS)
    status = _status_of(message)
    if status != "SERVING":
        raise Unhealthy(f"it says {status}")


def require_grpc(address: str, has_tls: bool, seconds: float) -> None:
    """Raise Unhealthy unless the server at ``unix:PATH`` or ``HOST:PORT`` serves gRPC, whatever it says.

    It is asked for a method that it has not: gRPC's serving thread says so itself, when clients hold all other threads.
    A server that refuses the connection, as one that has too many or wants a certificate does, raises Unhealthy only,
    and one that does not answer Silent.
    """
    _answer(address, has_tls, b"/nnhal/Listens", seconds)


def require_end(path: str, seconds: float) -> None:
    """Raise Silent unless the server at a unix socket of packets ends a connection on which nothing comes."""
    with _connected(f"{_UNIX}{path}", "", seconds, socket.SOCK_SEQPACKET) as connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(_LONGEST_LINE):
            pass


def _answer(address: str, has_tls: bool, method: bytes, seconds: float) -> bytes | None:
    """The message with which gRPC answers a call without bytes; None if it answers with a status only."""
    with _connected(address, "h2" if has_tls else "", seconds) as connection:
        connection.sendall(_request(method))
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
                return None
    raise Unhealthy(_NO_STATUS)


@contextmanager
def _connected(
    address: str, protocol: str, seconds: float, kind: socket.SocketKind = socket.SOCK_STREAM
) -> Iterator[socket.socket]:
    """A connection, with TLS if a ``protocol`` is named that is spoken over it. ``kind`` is that of a unix socket.

    ``seconds`` is how long each wait may take. What fails within the context raises Unhealthy.
    """
    try:
        with _secured(_plain(address, seconds, kind), protocol) as connection:
            yield connection
    except TimeoutError:
        raise Silent(f"no answer within {seconds:g} s") from None
    except (ConnectionRefusedError, FileNotFoundError, BlockingIOError) as error:  # the last if too many wait already
        raise Silent(f"{error.strerror or error}") from None
    except OSError as error:
        raise Unhealthy(f"{error.strerror or error}") from None


def _plain(address: str, seconds: float, kind: socket.SocketKind) -> socket.socket:
    path = address.removeprefix(_UNIX)
    if path == address:
        host, port = _host_and_port(address, 0)
        return socket.create_connection((_ANY_HOST.get(host, host), port), seconds)
    connection = socket.socket(socket.AF_UNIX, kind)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _secured(connection: socket.socket, protocol: str) -> socket.socket:
    """Certificates are not verified: what is asked is whether a process answers, and it gets no secrets."""
    if not protocol:
        return connection
    import ssl  # as slow to import as all the rest

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols([protocol])
        return context.wrap_socket(connection)
    except BaseException:
        connection.close()
        raise


def _request(method: bytes) -> bytes:
    headers = b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _text(method),  # :path
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


def require_page(url: str, seconds: float) -> None:
    """Raise Unhealthy unless the answer to GET is a success or sends the caller elsewhere (2xx, 3xx).

    ``seconds`` is how long each wait may take.
    """
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, port = _host_and_port(authority, _PORTS[scheme])
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with _connected(address, "http/1.1" if scheme == "https" else "", seconds) as connection:
        request = f"GET {slash or '/'}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        with connection.makefile("rb") as answer:
            line = answer.readline(_LONGEST_LINE).decode("latin-1").strip()
    status = line.split(" ")[1] if line.startswith("HTTP/1.") and line.count(" ") else ""
    if status[:1] not in ("2", "3"):
        raise Unhealthy(f"it answers {line!r}" if line else "it closes the connection without an answer")


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        return authority.strip("[]"), default
    if not port.isdecimal():
        raise Unhealthy(f"got port {port!r}, expected a number")
    return host.strip("[]"), int(port)
