"""Limits of the connections of one server, over HTTP/1.1 or HTTP/2, and the timer that ends those that stall."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server."""

    connections: int = 1024
    """How many there may be at a time."""
    stalled_seconds: float = 10
    """The time that a client may take for a head, and for the next byte of a body or a response."""
    idle_seconds: float = 60
    """The time that a connection may be open without a request."""
    head_bytes: int = 32 * 1024
    """The bytes that the head of a request may have, with the trailers and whatever else is beside its body."""
    headers: int = 128
    """How many headers it may have, trailers among them."""


class TimedConnection(Protocol):
    """A connection whose client may stall."""

    transport: asyncio.Transport

    @property
    def is_idle(self) -> bool:
        """True if no request is open."""

    @property
    def waits_for_server(self) -> bool:
        """True if the client has sent all that it can before the server goes on."""

    def time_is_up(self) -> None:
        """End the connection, of which everything that was written has been sent."""


class StallTimer:
    """Ends a connection whose client stalls. One timer serves the whole connection, not one for each request."""

    def __init__(self, connection: TimedConnection, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._limits = limits
        self._loop = loop
        self.since = loop.time()
        """When the client has last done what it was to do, by the loop's clock; set it when it has done more."""
        self._unsent = 0
        self._next: asyncio.Handle = loop.call_soon(self.look)

    def cancel(self) -> None:
        self._next.cancel()

    def look(self) -> None:
        """End the connection if its time is up, or else look again later."""
        connection, limits, now = self._connection, self._limits, self._loop.time()
        unsent = connection.transport.get_write_buffer_size()
        if unsent != self._unsent or (not unsent and connection.waits_for_server):
            self._unsent, self.since = unsent, now
        is_idle = connection.is_idle and not unsent
        due = self.since + (limits.idle_seconds if is_idle else limits.stalled_seconds)
        if now < due:
            next_look = now + min(limits.stalled_seconds, limits.idle_seconds)
            self._next = self._loop.call_at(min(due, next_look), self.look)
        elif unsent:
            connection.transport.abort()
        else:
            connection.time_is_up()
            self.since = now  # of what is sent last
            self._next = self._loop.call_later(limits.stalled_seconds, self.look)
