"""The listeners of a server of HTTP/2, and its end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http2.connection import Http2Connection, OpenStream
from nnhal_hosting.http2.waiting import WaitingStreams
from nnhal_hosting.shared_numbers import SharedNumber

_LOOK_SECONDS = 0.01
_CLOSE_SECONDS = 0.5
"""The time that clients have to take what they were sent last."""
_BACKLOG = 2048


class Http2Listeners:
    """Serves HTTP/2 at some sockets, over TLS at those of TCP if there is a context for it. It belongs to the loop."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        limits: ConnectionLimits,
        streams: int,
        waiting: WaitingStreams,
        open_stream: OpenStream,
        tls: ssl.SSLContext | None = None,
        by_peer: dict[str, object] | None = None,
    ) -> None:
        """The sockets are bound, and belong to this object. ``limits.connections`` are those of each of them,
        ``streams`` are those that each connection may have open at a time. ``tls`` is changed: it offers h2 only.
        Connections of TCP are noted in ``by_peer`` while they are there.
        """
        self._sockets = sockets
        self._limits = limits
        self._streams = streams
        self._waiting = waiting
        self._open = open_stream
        self._by_peer = {} if by_peer is None else by_peer
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._connections: dict[Http2Connection, None] = {}
        self._servers: list[asyncio.AbstractServer] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            make = partial(
                Http2Connection,
                self._limits,
                self._streams,
                self._waiting,
                self._connections,
                self._by_peer,
                SharedNumber(),
                self._open,
            )
            if bound.family == socket.AF_UNIX:
                self._servers.append(await loop.create_unix_server(make, sock=bound, backlog=_BACKLOG))
                continue
            handshake = self._limits.stalled_seconds if self._tls is not None else None
            server = await loop.create_server(
                make, sock=bound, backlog=_BACKLOG, ssl=self._tls, ssl_handshake_timeout=handshake
            )
            self._servers.append(server)

    async def stop(self, grace: float) -> None:
        """Accept nothing more, and end all connections: as soon as their streams have ended, or after ``grace``
        seconds.
        """
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        for connection in list(self._connections):
            connection.give_notice()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while any(connection.has_streams for connection in self._connections):
                    await asyncio.sleep(_LOOK_SECONDS)
        for connection in list(self._connections):
            connection.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._connections:
                    await asyncio.sleep(_LOOK_SECONDS)
        for connection in list(self._connections):
            connection.transport.abort()
