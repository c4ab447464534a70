"""A persistent HTTP/1.1 connection that moves tensors without copying them into one body first."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from benchmarks.generators import BenchError

_SECONDS = 60.0
_JOINED = 1 << 16
"""Bodies up to this size in bytes are sent with their head, in one packet."""
Raw = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer. ``body`` is valid until the next request; its first ``json_bytes`` bytes are JSON."""

    status: int
    body: memoryview
    json_bytes: int

    def json(self) -> Any:
        """The JSON of the answer; None if it has none. Raises BenchError."""
        try:
            return json.loads(bytes(self.body[: self.json_bytes])) if self.json_bytes else None
        except ValueError as error:
            raise BenchError(f"the answer is not JSON: {error}") from error


class HttpConnection:
    """A connection for one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """``url`` is HOST:PORT, with or without ``http://``. Raises BenchError or OSError."""
        host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
        if not host or not port.isdigit():
            raise BenchError(f"url {url!r}: expected HOST:PORT")
        self._url = url
        self._host = f"{host}:{port}"
        self._address = (host.strip("[]"), int(port))
        self._headers = [f"{name}: {value}" for name, value in headers.items()]
        self._socket = self._connected()
        self._buffer = bytearray(1 << 16)

    def head(self, method: str, path: str, size: int, json_bytes: int | None = None) -> bytes:
        """The head of a request with a body. ``json_bytes`` is the length of its JSON if binary tensors follow."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", f"Content-Length: {size}"]
        lines.append(f"Content-Type: {'application/json' if json_bytes is None else 'application/octet-stream'}")
        if json_bytes is not None:
            lines.append(f"Inference-Header-Content-Length: {json_bytes}")
        return "\r\n".join((*lines, *self._headers, "", "")).encode()

    def send(self, parts: Sequence[Raw]) -> None:
        """Send head and body, over a new connection if the server has closed an idle one. Raises OSError."""
        if self._is_closed():
            self._socket.close()
            self._socket = self._connected()
        if sum(map(len, parts)) <= _JOINED:
            self._socket.sendall(b"".join(parts))
        else:
            for part in parts:
                self._socket.sendall(part)

    def receive(self) -> HttpAnswer:
        """Receive the answer. Raises BenchError or OSError."""
        begun, end = b"", -1
        while end < 0:
            piece = self._socket.recv(1 << 16)
            if not piece:
                raise BenchError(f"{self._url} closed the connection")
            begun += piece
            end = begun.find(b"\r\n\r\n")
        first, *lines = begun[:end].decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers["content-length"]) if headers.get("content-length", "").isdigit() else -1
        if size < 0:
            raise BenchError(f"{self._url}: got an answer without Content-Length: {first}")
        body = self._body(begun[end + 4 :], size)
        return HttpAnswer(int(first.split()[1]), body, int(headers.get("inference-header-content-length", size)))

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with JSON, and return the JSON of its answer. Raises BenchError or OSError."""
        content = b"" if body is None else json.dumps(body).encode()
        self.send([self.head(method, path, len(content)), content])
        return require_ok(self.receive(), f"{self._url}: {method} {path}")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _connected(self) -> socket.socket:
        connected = socket.create_connection(self._address, _SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _is_closed(self) -> bool:
        """Between requests, an idle connection is readable only once the server has closed it."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _body(self, begun: bytes, size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        body, done = memoryview(self._buffer)[:size], len(begun)
        body[:done] = begun
        while done < size:
            count = self._socket.recv_into(body[done:])
            if not count:
                raise BenchError(f"{self._url} closed the connection after {done} of {size} bytes")
            done += count
        return body


def require_ok(answer: HttpAnswer, what: str) -> Any:
    """The JSON of an answer. Raises BenchError with the server's message if it is an error."""
    if answer.status != 200:
        raise BenchError(f"{what}: status {answer.status}: {bytes(answer.body[:500]).decode(errors='replace')}")
    return answer.json()
