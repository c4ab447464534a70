"""The server of the protocol over gRPC, with health and reflection.

It is grpc's threaded server, not the one for asyncio. A model's run blocks a thread either way. With four clients and
requests of 1 KiB the asyncio server, which hands each request to a thread pool, answered 2,760 requests a second, this
one 3,630 (two processors, a model that returns its input); with large requests both were equal.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc

from nnhal_hosting.link_server import remove_stale_socket
from nnhal_service.v2.backend import ModelRepository
from nnhal_service.v2.grpc.handlers import StreamLimit, inference_handler, reflection_handler
from nnhal_service.v2.grpc.health import ModelHealth
from nnhal_service.v2.grpc.servicer import InferenceServicer

_UNIX = "unix:"
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """The limits of a server."""

    calls: int = 64
    """How many calls are served at a time, or wait in the queues of models."""
    streams: int = 32
    """How many streams are open beside them."""
    waiting: int = 1024
    """How many more calls wait for a thread; beyond them, calls end with RESOURCE_EXHAUSTED."""
    message_bytes: int = -1
    """The longest message; -1 for any length."""


class GrpcFront:
    """The gRPC server. Use it as a context: entering serves, leaving ends the calls that run."""

    def __init__(
        self,
        addresses: Sequence[str],
        servicer: InferenceServicer,
        repository: ModelRepository,
        limits: GrpcLimits = GrpcLimits(),
        credentials: grpc.ServerCredentials | None = None,
        interceptors: Sequence[grpc.ServerInterceptor[Any, Any]] = (),
    ) -> None:
        """An address is ``HOST:PORT``, with port 0 for any free port, or ``unix:PATH``, which takes no credentials.

        Raises OSError if an address cannot be listened at.
        """
        streams = StreamLimit(limits.streams)
        self.health = ModelHealth(repository)
        threads = limits.calls + limits.streams
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="v2-grpc")
        self._server = grpc.server(
            self._pool,
            interceptors=list(interceptors),
            options=(
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ),
            maximum_concurrent_rpcs=threads + limits.waiting,
        )
        self._server.add_generic_rpc_handlers((inference_handler(servicer, streams), reflection_handler(streams)))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        self._sockets = [Path(address.removeprefix(_UNIX)) for address in addresses if address.startswith(_UNIX)]
        self.addresses = tuple(self._listen(address, credentials) for address in addresses)
        """The given addresses, with the chosen ports."""

    def __enter__(self) -> GrpcFront:
        self._server.start()
        self.health.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.health.enter_graceful_shutdown()
        self._server.stop(_GRACE_SECONDS).wait()
        self._pool.shutdown()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    def _listen(self, address: str, credentials: grpc.ServerCredentials | None) -> str:
        if address.startswith(_UNIX):
            remove_stale_socket(Path(address.removeprefix(_UNIX)), socket.SOCK_STREAM)
            credentials = None
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}") from error
        return address if address.startswith(_UNIX) else f"{address.rpartition(':')[0]}:{port}"
