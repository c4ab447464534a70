"""The gRPC server over the HTTP/2 of ``nnhal_hosting.http2``."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from nnhal_hosting.access import TcpListener, Tls
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http2 import Http2Listeners, WaitingStreams
from nnhal_hosting.link_server import remove_stale_socket
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.v2.grpc.calls import Method
from nnhal_service.v2.grpc.http2_calls import Http2Calls
from nnhal_service.v2.grpc.limits import UNIX, GrpcLimits

_BACKLOG = 2048


class Http2Front:
    """Serves methods at addresses. Use its methods in the loop."""

    TITLE = "ngh2"

    def __init__(
        self,
        addresses: Sequence[str],
        methods: Callable[[Sequence[str]], Mapping[str, Method]],
        limits: GrpcLimits,
        tls: Tls | None,
        socket_mode: int,
        budget: RequestMemoryBudget,
        connections: dict[str, object],
        inherited: Mapping[str, socket.socket],
    ) -> None:
        """``methods`` makes those of a server at these addresses, with the chosen ports. Messages that do not come at
        once are charged to ``budget``. TCP connections are noted in ``connections`` while they are there. ``inherited``
        are sockets that listen already, by address.

        Raises OSError if an address cannot be listened at.
        """
        with ExitStack() as undo:
            sockets = [
                undo.enter_context(inherited.get(address) or _bound(address, socket_mode)) for address in addresses
            ]
            undo.pop_all()
        self.addresses = tuple(map(_address_of, addresses, sockets))
        self._calls = Http2Calls(methods(self.addresses), budget, limits.message_bytes)
        self._listeners = Http2Listeners(
            sockets,
            ConnectionLimits(limits.connections, limits.stalled_seconds, limits.idle_seconds),
            limits.connection_calls,
            WaitingStreams(limits.waiting, limits.stalled_seconds),
            self._calls.open,
            tls.ssl_context() if tls is not None else None,
            connections,
        )

    async def start(self) -> None:
        await self._listeners.start()

    async def stop(self, grace: float) -> None:
        """Accept nothing more, and end what has not ended after ``grace`` seconds."""
        await self._listeners.stop(grace)
        if self._calls.tasks:
            await asyncio.wait(list(self._calls.tasks))


def _bound(address: str, socket_mode: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    if not address.startswith(UNIX):
        listener = TcpListener.parse(address)
        if listener is None:
            raise OSError(f"cannot listen at {address}, expected HOST:PORT or unix:PATH")
        return listener.listen(_BACKLOG)
    path = Path(address.removeprefix(UNIX))
    remove_stale_socket(path, socket.SOCK_STREAM)
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        path.chmod(stat.S_IMODE(path.stat().st_mode) & socket_mode)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise OSError(f"cannot listen at {address}: {error.strerror}") from error
    return bound


def _address_of(address: str, bound: socket.socket) -> str:
    """The address with the port that was chosen."""
    return address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{bound.getsockname()[1]}"
