"""The servers of every nnhal process: gRPC with health and reflection, and the link; and their orderly shutdown."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from nnhal.endpoint import Endpoint
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import LinkServer, Session, remove_stale_socket
from nnhal_hosting.polling import Poller
from nnhal_hosting.reflection import SERVICE_NAME, reflection_handler

_RPC_OPTIONS = (
    # The socket is local and its clients are trusted: a model with inline constants may have any size.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)
_GRACE_SECONDS = 2.0


class ServerProcess:
    """The two servers of one endpoint. As a context manager, it serves on entry and shuts both down on exit."""

    def __init__(
        self,
        endpoint: Endpoint,
        opened: Callable[[Session], None],
        limits: SessionLimits,
        rpc_threads: int,
        allowed_uids: Collection[int] = (),
        poller: Poller | None = None,
    ) -> None:
        """Create both servers; ``poller`` serves the channels. Raises OSError or ValueError for a bad endpoint."""
        _use_all_descriptors()
        endpoint.create()
        remove_stale_socket(endpoint.rpc, socket.SOCK_STREAM)
        self.endpoint = endpoint
        self._link = LinkServer(endpoint.link, opened, limits, allowed_uids, poller)
        self._pool = ThreadPoolExecutor(rpc_threads, thread_name_prefix="rpc")
        self.rpc = grpc.server(self._pool, options=_RPC_OPTIONS)
        try:
            self.rpc.add_insecure_port(endpoint.address)
        except RuntimeError as error:
            self._link.close()
            raise OSError(f"cannot listen at {endpoint.rpc}") from error
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.rpc)

    def reflect(self, services: Collection[str]) -> None:
        """Offer reflection of the named services, of health and of reflection itself, and report them as serving."""
        self.rpc.add_generic_rpc_handlers((reflection_handler((*services, health.SERVICE_NAME, SERVICE_NAME)),))
        for name in ("", *services):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def __enter__(self) -> ServerProcess:
        self._link.start()
        self.rpc.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._health.enter_graceful_shutdown()
        stopped = self.rpc.stop(_GRACE_SECONDS)
        self._link.close()
        stopped.wait()
        self._pool.shutdown()
        self.endpoint.rpc.unlink(missing_ok=True)


def _use_all_descriptors() -> None:
    """Raise the limit on open files to the system's maximum, since each mapped pool holds a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
