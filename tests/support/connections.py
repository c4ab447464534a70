"""Connections to each listener, of each kind that clients make: one call makes one, uses it, and ends it."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import count
from pathlib import Path

from nnhal.v1 import link_pb2
from tests.support import raw_http2
from tests.support.raw_links import RawLink
from tests.support.repositories import numbers
from tests.support.v2 import raw_request

Connect = Callable[[str], None]
_SECONDS = 30
_NAMES = count()
_NAMES_AT_A_TIME = 16
_RESET = struct.pack("ii", 1, 0)
_UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
_HALF_FRAME = bytes((0, 1, 0, 1, 4, 0, 0, 0, 1)) + b"half"
_HEALTH = b"/grpc.health.v1.Health/Check"
_V2 = b"/inference.GRPCInferenceService/"


def _opened(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=_SECONDS)


def _http(address: str, head: bytes, body: bytes = b"", status: int = 200) -> None:
    """Ask, and read the answer up to the end of the connection."""
    with _opened(address) as connection:
        connection.sendall(head + b"Host: %s\r\nConnection: close\r\n\r\n" % address.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:300]


def _page(address: str, path: bytes, status: int = 200, lines: bytes = b"") -> None:
    _http(address, b"GET %s HTTP/1.1\r\n%s%s" % (path, lines, _cookie(address)), status=status)


@cache
def _cookie(address: str) -> bytes:
    """The header of a browser that the dashboard knows; of others it makes a new one each time."""
    with _opened(address) as connection:
        connection.sendall(b"GET /login HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % address.encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    found = re.search(rb"^set-cookie: ([^;]*)", answer, re.IGNORECASE | re.MULTILINE)
    return b"" if found is None else b"Cookie: %s\r\n" % found[1]


def _reset(address: str, path: bytes, end: bytes = b"\r\n", is_answered: bool = False) -> None:
    """Send something, and reset the connection: before an answer, or after its first bytes."""
    with _opened(address) as connection:
        host = address.encode()
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n%s%s" % (path, host, _cookie(address), end))
        if is_answered:
            assert connection.recv(1 << 16)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _stream(address: str) -> None:
    """Have events sent, and leave."""
    with _opened(address) as connection:
        head = b"GET /live?f=overview.figures HTTP/1.1\r\nHost: %s\r\n%s\r\n"
        connection.sendall(head % (address.encode(), _cookie(address)))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def _infer(address: str, lines: bytes = b"", is_chunked: bool = False) -> None:
    tensor = {"name": "x", "shape": numbers().shape, "datatype": "FP32", "data": numbers().reshape(-1).tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    framing = b"Transfer-Encoding: chunked\r\n" if is_chunked else b"Content-Length: %d\r\n" % len(body)
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    _http(address, b"POST /v2/models/tanh/infer HTTP/1.1\r\n" + framing + lines, sent)


def _infer_directly(address: str) -> None:
    """Infer on a connection that is kept, which the client ends."""
    with _opened(address) as connection:
        body = numbers().tobytes()
        head = b"POST /v2/models/tanh/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def _many_names(address: str) -> None:
    """Ask for models, with tokens and under traces that nobody has named before."""
    with _opened(address) as connection, connection.makefile("rb") as answers:
        for _ in range(_NAMES_AT_A_TIME):
            name = b"n%d" % next(_NAMES)
            head = b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
            trace = b"traceparent: 00-%032x-%016x-01\r\n" % (next(_NAMES), next(_NAMES))
            connection.sendall(head % (name, address.encode(), name) + trace + b"Content-Length: 2\r\n\r\n{}")
            lines = list(iter(answers.readline, b"\r\n"))
            assert lines[0].startswith(b"HTTP/1.1 404 ")
            answers.read(next(int(line.split()[1]) for line in lines if line.startswith(b"content-length:")))


def _many_called(address: str) -> None:
    """Call for models that nobody has named before."""
    with raw_http2.connected(address) as connection:
        for stream in range(1, 2 * _NAMES_AT_A_TIME, 2):
            message = raw_request(f"n{next(_NAMES)}", x=numbers()).SerializeToString()
            framed = b"\0" + len(message).to_bytes(4) + message
            connection.sendall(raw_http2.opened(stream, *raw_http2.headers_of(_V2 + b"ModelInfer"), data=framed))
            assert b"unknown model" in raw_http2.answer(connection, stream)


def _refused(address: str) -> None:
    with _opened(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def _call(address: str, path: bytes, message: bytes = b"", expected: bytes = b"") -> None:
    """Call a method of gRPC on a connection of its own."""
    with raw_http2.connected(address) as connection:
        framed = b"\0" + len(message).to_bytes(4) + message
        connection.sendall(raw_http2.opened(1, *raw_http2.headers_of(path), data=framed))
        answer = raw_http2.answer(connection, 1)
    assert expected in answer, answer


def _broken_call(address: str) -> None:
    """Begin a call, and leave within a frame."""
    with raw_http2.connected(address) as connection:
        connection.sendall(raw_http2.opened(1, *raw_http2.headers_of(_HEALTH))[:9] + b"half")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _open_stream(address: str) -> None:
    """Call a method of streams, send one message, read one, and leave."""
    message = _inference()
    framed = b"\0" + len(message).to_bytes(4) + message
    with raw_http2.connected(address) as connection:
        headers = raw_http2.headers_of(_V2 + b"ModelStreamInfer")
        begun = raw_http2.opened(1, *headers, data=framed)
        connection.sendall(begun)
        assert b"tanh" in raw_http2.answer(connection, 1)


def _inference() -> bytes:
    return raw_request("tanh", x=numbers()).SerializeToString()


def _bare(address: str) -> None:
    path = address.removeprefix("unix:")
    if path == address:
        _opened(address).close()
    else:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)


def _session(address: str) -> None:
    with RawLink(Path(address)) as link:
        assert link.hello().HasField("welcome")


def _link(address: str, message: bytes) -> None:
    with RawLink(Path(address)) as link, suppress(OSError):
        link.send(message)
        link.wait_for_end()


_WEB: Mapping[str, Connect] = {
    "bare": _bare,
    "error": partial(_page, path=b"/nothing", status=404),
    "refused": _refused,
    "half a head": partial(_reset, path=b"/half", end=b"half"),
    "aborted": partial(_reset, path=b"/metrics"),
    "reset": partial(_reset, path=b"/login", is_answered=True),
}
_RPC: Mapping[str, Connect] = {
    "bare": _bare,
    "health": partial(_call, path=_HEALTH, expected=b"\x08\x01"),
    "error": partial(_call, path=b"/nnhal/Nothing", expected=b"12"),
    "aborted": _broken_call,
    "malformed": partial(_call, path=b"/\xff"),
}
_LINK: Mapping[str, Connect] = {
    "session": _session,
    "malformed": partial(_link, message=b"\xff\xff"),
    "no hello": partial(_link, message=link_pb2.LinkRequest().SerializeToString()),
}
KINDS: Mapping[str, Mapping[str, Connect]] = {
    "http": {
        **_WEB,
        "health": partial(_page, path=b"/v2/health/live"),
        "metadata": partial(_page, path=b"/v2/models/tanh"),
        "infer": _infer,
        "infer directly": _infer_directly,
        "infer in chunks": partial(_infer, is_chunked=True),
        "upgrade": partial(_infer, lines=_UPGRADE),
        "many names": _many_names,
    },
    "metrics": {
        **_WEB,
        "page": partial(_page, path=b"/metrics"),
        "upgrade": partial(_page, path=b"/metrics", lines=_UPGRADE),
    },
    "dashboard": {
        **_WEB,
        "page": partial(_page, path=b"/"),
        "style": partial(_page, path=b"/static/nothing.css", status=404),
        "stream": _stream,
        "upgrade": partial(_page, path=b"/login", lines=_UPGRADE),
    },
    "grpc": {
        **_RPC,
        "live": partial(_call, path=_V2 + b"ServerLive", expected=b"\x08\x01"),
        "metadata": partial(_call, path=_V2 + b"ModelMetadata", message=b"\x0a\x04tanh", expected=b"FP32"),
        "infer": lambda address: _call(address, _V2 + b"ModelInfer", _inference(), b"tanh"),
        "stream": _open_stream,
        "many names": _many_called,
    },
    "framework.sock": {**_RPC, "devices": partial(_call, path=b"/nnhal.v1.FrameworkService/ListDevices")},
    "device.sock": {**_RPC, "version": partial(_call, path=b"/nnhal.v1.DeviceService/GetVersionString")},
    "link.sock": _LINK,
}
"""By listener and kind."""
