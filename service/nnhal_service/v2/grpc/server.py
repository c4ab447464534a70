"""The server of the protocol over gRPC, with health and reflection, in the loop in which requests are served.

It is ``http2_front``, or where ngh2 is missing ``aio_front``. Both serve the same methods.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import MappingProxyType, TracebackType

from nnhal_hosting.access import LocalUsers, TcpListener, Tls
from nnhal_hosting.logs import get_logger
from nnhal_service.access import Guard
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.aio_front import AioFront
from nnhal_service.v2.grpc.calls import Method, OpenLimit
from nnhal_service.v2.grpc.handlers import health_methods, inference_methods, reflection_methods
from nnhal_service.v2.grpc.health import ModelHealth
from nnhal_service.v2.grpc.limits import UNIX, GrpcLimits
from nnhal_service.v2.grpc.servicer import InferenceServicer

try:
    from nnhal_service.v2.grpc.http2_front import Http2Front
except ImportError:  # ngh2 has no wheel for this platform
    Http2Front = None  # type: ignore[assignment,misc]

SERVES_INHERITED = Http2Front is not None
"""True if the server can serve at a socket that another process has opened."""
_GRACE_SECONDS = 2.0
_log = get_logger(__name__)


class GrpcServer:
    """The gRPC server. Use it as a context: entering serves, leaving ends the calls that run."""

    def __init__(
        self,
        loop: ServingLoop,
        addresses: Sequence[str],
        servicer: InferenceServicer,
        repository: ModelRepository,
        limits: GrpcLimits | None = None,
        tls: Tls | None = None,
        guard: Guard | None = None,
        users: Callable[[TcpListener], LocalUsers | None] = lambda _: None,
        socket_mode: int = 0o600,
        connections: dict[str, object] | None = None,
        inherited: Mapping[str, socket.socket] = MappingProxyType({}),
    ) -> None:
        """An address is ``HOST:PORT``, with port 0 for any free port, or ``unix:PATH``, which has no TLS.
        ``users`` of this host may do everything at a port, and those whom the ``socket_mode`` of its file lets in at a
        unix socket. TCP connections are noted in ``connections``, by gRPC's names of the peers, as long as they are
        there. ``inherited`` are sockets that listen already, by address, if SERVES_INHERITED; they belong to this
        object from now on.

        ``loop`` runs until the server has been left. Raises OSError if an address cannot be listened at.
        """
        self._loop = loop
        self._connections = {} if connections is None else connections
        limits = limits or GrpcLimits()
        self._stops = False
        self._threads = ThreadPoolExecutor(limits.threads, "v2-grpc")
        self._sockets = [Path(address.removeprefix(UNIX)) for address in addresses if address.startswith(UNIX)]
        self.health = ModelHealth(repository, loop)
        listening = self._listen(addresses, servicer, limits, tls, guard or Guard(), users, socket_mode, inherited)
        self._front = loop.run(listening)
        self.addresses = self._front.addresses
        """Those that it listens at, with the chosen ports."""

    @property
    def served_by(self) -> str:
        """The library that has gRPC's connections: ngh2, or grpc.aio where that is missing."""
        return self._front.TITLE

    def __enter__(self) -> GrpcServer:
        self._loop.run(self._front.start())
        _log.info("gRPC is served", addresses=list(self.addresses), by=self.served_by)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._stop())
        self._threads.shutdown()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    async def _listen(
        self,
        addresses: Sequence[str],
        servicer: InferenceServicer,
        limits: GrpcLimits,
        tls: Tls | None,
        guard: Guard,
        users: Callable[[TcpListener], LocalUsers | None],
        socket_mode: int,
        inherited: Mapping[str, socket.socket],
    ) -> Http2Front | AioFront:
        calls, streams = OpenLimit(limits.calls, "calls"), OpenLimit(limits.streams, "streams")
        checks = OpenLimit(limits.calls, "checks of health")
        watches = OpenLimit(limits.watches, "watches of health")
        infer = servicer.infer_calls(self._loop)

        def methods(bound: Sequence[str]) -> dict[str, Method]:
            """The methods of a server at these addresses: who may call them is known with the ports."""
            guarded = guard
            for listener in filter(None, map(TcpListener.parse, bound)):
                guarded = guard.of_users(users(listener))
            found = (
                inference_methods(servicer, infer, self._loop, self._threads, calls, streams, guarded),
                health_methods(self.health, checks, watches),
                reflection_methods(streams, guarded),
            )
            return {method.path: method for method in chain(*found)}

        given = (addresses, methods, limits, tls, socket_mode)
        if Http2Front is not None:
            return Http2Front(*given, servicer.budget, self._connections, inherited)
        _log.warning("ngh2 is not installed: grpc.aio serves gRPC, with more processor time for each call")
        return AioFront(*given, self._ended)

    async def _stop(self) -> None:
        self._stops = True
        self.health.end()
        await self._front.stop(_GRACE_SECONDS)

    def _ended(self) -> None:
        if not self._stops:
            self.health.end()
            self._loop.server_ended(f"gRPC at {', '.join(self.addresses)}")
