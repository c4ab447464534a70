"""How many HTTP connections there may be, and how long one waits for its client.

uvicorn itself closes connections that are idle after a response, and waits for ever in all other cases.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from nnhal_service.v2.http.statuses import error_response

_REQUEST_TIMEOUT, _UNAVAILABLE = 408, 503


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``stalled_seconds`` are for a head until it is whole, and for a body or a response until it has gone on at all.

    ``idle_seconds`` are for a connection whose client has not begun a request.
    """

    connections: int = 1024
    stalled_seconds: float = 10
    idle_seconds: float = 60


class _Awaited(Enum):
    """What a client is to send next."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends when its client does not go on: with 408 where it may still be answered.

    A client that does not read what it is sent does not go on either. One too many is told so, with 503.
    """

    limits = ConnectionLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._unsent = 0
        self._expect(_Awaited.REQUEST)
        self._timer = self.loop.call_soon(self._look)
        if len(self.connections) > self.limits.connections:
            self._end(_UNAVAILABLE, f"there are {self.limits.connections} connections, and no more may be")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a request has come."""
        self._expect(_Awaited.HEAD)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._expect(_Awaited.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body has come."""
        self._expect(_Awaited.BODY)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._expect(_Awaited.REQUEST)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The response is written, if perhaps not sent."""
        self._since = self.loop.time()
        super().on_response_complete()

    def _expect(self, awaited: _Awaited) -> None:
        self._awaited = awaited
        self._since = self.loop.time()

    def _look(self) -> None:
        """One timer for each connection, which is not set anew for each request."""
        now, limits = self.loop.time(), self.limits
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent or (not unsent and self._serving()):
            self._unsent, self._since = unsent, now
        idle = self._awaited is _Awaited.REQUEST and not unsent
        due = self._since + (limits.idle_seconds if idle else limits.stalled_seconds)
        if now < due:
            next_look = now + min(limits.stalled_seconds, limits.idle_seconds)
            self._timer = self.loop.call_at(min(due, next_look), self._look)
        elif unsent:
            self.transport.abort()
        elif self._awaited is _Awaited.HEAD:
            self._end(_REQUEST_TIMEOUT, f"the head of the request was not whole within {limits.stalled_seconds:g} s")
        elif self._awaited is _Awaited.BODY and not self.cycle.response_started:
            self._end(_REQUEST_TIMEOUT, f"nothing of the body came for {limits.stalled_seconds:g} s")
        else:
            self.transport.close()

    def _serving(self) -> bool:
        """Whether the client waits for the server, and not the other way round."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and (not cycle.more_body or self.flow.read_paused)

    def _end(self, status: int, message: str) -> None:
        response = error_response(status, message)
        headers = [b"%s: %s\r\n" % header for header in (*response.raw_headers, (b"connection", b"close"))]
        self.transport.write(b"".join((STATUS_LINE[status], *headers, b"\r\n", bytes(response.body))))
        self.transport.close()


def protocol_with(connection_limits: ConnectionLimits) -> type[HttpToolsProtocol]:
    """The protocol for a server, which makes one for each connection."""

    class Protocol(LimitedProtocol):
        limits = connection_limits

    return Protocol
