"""The server of the protocol over gRPC, with health and reflection.

It is grpc's threaded server and not the one for asyncio. A model's run blocks a thread either way: the latter takes
requests of 1 KiB to a pool of threads and back at 2,760 a second with four clients, where this one has 3,630 (two
processors, the model of a test that gives its input back), and gains nothing with large ones.
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
from nnhal_service.v2.grpc.handlers import generic_handler
from nnhal_service.v2.grpc.health import ModelHealth
from nnhal_service.v2.grpc.reflection import reflection_handler
from nnhal_service.v2.grpc.servicer import InferenceServicer
from nnhal_service.v2.grpc.streams import StreamLimit

_UNIX = "unix:"
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """``calls`` are in the queues of models at a time, ``streams`` open beside them; ``waiting`` more wait for that and
    beyond them calls end with RESOURCE_EXHAUSTED. ``message_bytes`` -1 is no limit.
    """

    calls: int = 64
    streams: int = 32
    waiting: int = 1024
    message_bytes: int = -1


class GrpcFront:
    """Use as a context: entering serves, leaving ends what runs."""

    def __init__(
        self,
        addresses: Sequence[str],
        servicer: InferenceServicer,
        repository: ModelRepository,
        limits: Limits = Limits(),
        credentials: grpc.ServerCredentials | None = None,
        interceptors: Sequence[grpc.ServerInterceptor[Any, Any]] = (),
    ) -> None:
        """An address is ``HOST:PORT``, port 0 for any that is free, or ``unix:PATH``, which takes no credentials.

        Raises OSError where one cannot be listened at.
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
        self._server.add_generic_rpc_handlers((generic_handler(servicer, streams), reflection_handler(streams)))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        self._sockets = [Path(address.removeprefix(_UNIX)) for address in addresses if address.startswith(_UNIX)]
        self.addresses = tuple(self._listen(address, credentials) for address in addresses)
        """Those that were given, with the ports that were chosen."""

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
