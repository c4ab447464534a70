"""The server of the protocol over gRPC, with health and reflection.

It is grpc.aio, in the loop in which requests are served. A threaded server has to hand each request to that loop and
wait for it: a request of 1 KiB then took 806 µs of processor time instead of 539, and 473 instead of 482 with four
clients (two busy processors, the framework's part).
"""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import grpc
import grpc.aio

from nnhal_hosting.access import LocalUsers, TcpListener
from nnhal_hosting.calls import MOST_UNTAKEN, UntakenAnswers
from nnhal_hosting.calls.limits import connections_option, read_ahead_options
from nnhal_hosting.link_server import remove_stale_socket
from nnhal_service.access import Guard
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.accepting import add_services, add_unary_calls, new_server
from nnhal_service.v2.grpc.calls import OpenLimit
from nnhal_service.v2.grpc.compression import AS_RECEIVED
from nnhal_service.v2.grpc.handlers import (
    REFLECTION,
    health_handlers,
    inference_calls,
    inference_streams,
    reflection_handlers,
)
from nnhal_service.v2.grpc.health import HEALTH, ModelHealth
from nnhal_service.v2.grpc.message_receiver import MessageReceiver
from nnhal_service.v2.grpc.servicer import SERVICE, InferenceServicer

_UNIX = "unix:"
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    calls: int = 1024
    """How many calls are open at a time; beyond them, calls end with RESOURCE_EXHAUSTED."""
    streams: int = 32
    """How many streams are open beside them."""
    watches: int = 1024
    """How many clients watch the health of something."""
    receives: int = 128
    """How many messages of unary calls are received at a time; more calls wait."""
    connections: int = 1024
    """How many connections each address has at a time; gRPC closes the next one as soon as it has come."""
    connection_calls: int = 1024
    """How many calls of one connection are open at a time; its client keeps back more."""
    threads: int = 16
    """How many calls that may wait, such as loading a model, are served at a time; inferences need no thread."""
    message_bytes: int = -1
    """The longest message; -1 for any length."""
    untaken: int = MOST_UNTAKEN
    """How many answers wait for clients that do not take them; beyond them the oldest calls are ended."""


class GrpcServer:
    """The gRPC server. Use it as a context: entering serves, leaving ends the calls that run."""

    def __init__(
        self,
        loop: ServingLoop,
        addresses: Sequence[str],
        servicer: InferenceServicer,
        repository: ModelRepository,
        limits: GrpcLimits = GrpcLimits(),
        credentials: grpc.ServerCredentials | None = None,
        guard: Guard | None = None,
        users: Callable[[TcpListener], LocalUsers | None] = lambda _: None,
        shares_ports: bool = False,
        socket_mode: int = 0o600,
    ) -> None:
        """An address is ``HOST:PORT``, with port 0 for any free port, or ``unix:PATH``, which takes no credentials.
        ``users`` of this host may do everything at a port, and those whom the ``socket_mode`` of its file lets in at a
        unix socket. If ``shares_ports``, other processes may listen at the ports too.

        ``loop`` runs until the server has been left; gRPC serves in only one loop of a process at full speed. Raises
        OSError if an address cannot be listened at.
        """
        self._loop = loop
        self._limits = limits
        self._shares_ports = shares_ports
        self._socket_mode = socket_mode
        self._users = users
        self._stops = False
        self._threads = ThreadPoolExecutor(limits.threads, "v2-grpc")
        self._sockets = [Path(address.removeprefix(_UNIX)) for address in addresses if address.startswith(_UNIX)]
        self.health = ModelHealth(repository, loop)
        self._server, self.addresses = loop.run(self._listen(addresses, servicer, credentials, guard or Guard()))

    def __enter__(self) -> GrpcServer:
        self._loop.run(self._start())
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
        credentials: grpc.ServerCredentials | None,
        guard: Guard,
    ) -> tuple[grpc.aio.Server, tuple[str, ...]]:
        """The server, and its addresses with the chosen ports."""
        limits = self._limits
        untaken = UntakenAnswers(limits.untaken)
        server = new_server(
            (
                ("grpc.max_receive_message_length", limits.message_bytes),
                connections_option(limits.connections),
                ("grpc.max_concurrent_streams", limits.connection_calls),
                *read_ahead_options(),
                *AS_RECEIVED,
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", int(self._shares_ports)),
            ),
            untaken,
        )
        try:
            bound = tuple([self._bound(server, address, credentials) for address in addresses])
        except OSError:
            # A server that has never run keeps its ports.
            await server.start()
            await server.stop(None)
            raise
        for listener in filter(None, map(TcpListener.parse, bound)):
            guard = guard.of_users(self._users(listener))
        calls, streams = OpenLimit(limits.calls, "calls"), OpenLimit(limits.streams, "streams")
        receiver = MessageReceiver(limits.receives, limits.message_bytes)
        infer = servicer.infer_calls(self._loop)
        unary = inference_calls(servicer, infer, self._loop, self._threads, calls, guard, receiver)
        add_unary_calls(server, SERVICE.full_name, unary, untaken)
        add_services(
            server,
            {
                SERVICE.full_name: inference_streams(infer, streams, guard, untaken),
                HEALTH.full_name: health_handlers(self.health, OpenLimit(limits.watches, "watches of health"), untaken),
                REFLECTION: reflection_handlers(streams, guard, untaken),
            },
        )
        return server, bound

    async def _start(self) -> None:
        await self._server.start()
        self._watch = asyncio.create_task(self._look_for_end())

    async def _look_for_end(self) -> None:
        with suppress(Exception):  # gRPC logs why its loop has ended
            await self._server.wait_for_termination()
        if not self._stops:
            self.health.end()
            self._loop.server_ended(f"gRPC at {', '.join(self.addresses)}")

    async def _stop(self) -> None:
        self._stops = True
        self.health.end()
        await self._server.stop(_GRACE_SECONDS)

    def _bound(self, server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> str:
        """The address at which the server listens. Raises OSError."""
        path = Path(address.removeprefix(_UNIX)) if address.startswith(_UNIX) else None
        if path is not None:
            remove_stale_socket(path, socket.SOCK_STREAM)
            credentials = None
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}") from error
        if path is not None:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & self._socket_mode)
            return address
        return f"{address.rpartition(':')[0]}:{port}"
