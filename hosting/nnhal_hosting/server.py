"""The servers of every nnhal process: gRPC with health and reflection, and the link; and their orderly shutdown."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal.endpoint import Endpoint
from nnhal.link import SESSION_METADATA
from nnhal_hosting.calls import CallAdmission, CallLimits
from nnhal_hosting.connection_shares import ConnectionShares
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_calls import LinkCalls
from nnhal_hosting.link_server import LinkServer, Session, remove_stale_socket
from nnhal_hosting.listener_watch import Ask, ListenerWatch, asks_grpc, asks_link
from nnhal_hosting.operator_methods import OperatorMethods
from nnhal_hosting.polling import Poller
from nnhal_hosting.spare_descriptor import FOR_LOOKS
from nnhal_hosting.standard_services import REFLECT, SERVICE_NAME, WATCH, ProcessHealth, reflection_handler

_RPC_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_OPEN_TO_ALL = (f"/{_HEALTH}/", REFLECT)
"""What needs no link."""
_GRACE_SECONDS = 2.0
S = TypeVar("S")


class ServerProcess:
    """The two servers of one endpoint. As a context manager, it serves on entry and shuts both down on exit."""

    def __init__(
        self,
        endpoint: Endpoint,
        opened: Callable[[Session], None],
        limits: SessionLimits,
        calls: CallLimits,
        allowed_uids: Collection[int] = (),
        poller: Poller | None = None,
        admin_keys: Collection[str] = (),
        end_process: Callable[[], None] | None = None,
    ) -> None:
        """Create both servers; ``calls`` are the limits of gRPC's, ``poller`` serves the channels, and operators have
        one of the ``admin_keys``. ``end_process`` is called if a listener does not answer any more; the process is then
        to be started again. With None it goes on.

        Raises OSError or ValueError for a bad endpoint.
        """
        use_all_descriptors()
        endpoint.create()
        remove_stale_socket(endpoint.rpc, socket.SOCK_STREAM)
        self.endpoint = endpoint
        self._opened = opened
        self.link = LinkServer(endpoint.link, self._open, limits, allowed_uids, poller, admin_keys)
        self._operator_methods = OperatorMethods(admin_keys)
        self._admission = CallAdmission(
            calls, SESSION_METADATA, (WATCH, REFLECT), self._operator_methods.has, self._admit
        )
        self._link_calls = LinkCalls(self._admission, calls.message_bytes)
        self.rpc = grpc.server(
            ThreadPoolExecutor(1),  # for no call: the admission has threads for all
            handlers=[self._operator_methods],
            interceptors=[self._admission],
            options=(*_RPC_OPTIONS, *calls.options),
        )
        try:
            self.rpc.add_insecure_port(endpoint.address)
            endpoint.admit_group()
        except (RuntimeError, OSError, ValueError) as error:
            self.link.close()
            if not isinstance(error, RuntimeError):
                raise
            raise OSError(f"cannot listen at {endpoint.rpc}") from error
        self._beside = ExitStack()
        self._companions: list[AbstractContextManager[object]] = []
        self._around = ExitStack()
        self._helpers: list[AbstractContextManager[object]] = []
        self.accompany(ConnectionShares(endpoint.rpc, calls.connections))
        self._health = ProcessHealth()
        self._watch = ListenerWatch(None if end_process is None else partial(self._listener_ended, end_process))
        self.watch(f"gRPC at {endpoint.rpc}", asks_grpc(endpoint.address))
        self.watch(f"links at {endpoint.link}", asks_link(endpoint.link))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.rpc)

    def serve_calls(self, add: Callable[[S, grpc.Server], None], servicer: S) -> None:
        """Serve a servicer's methods over gRPC and over links. ``add`` is the generated function that adds it."""
        add(servicer, self.rpc)
        self._link_calls.add(add, servicer)
        self.link.open_calls = self._link_calls.open

    def serve_operators(self, add: Callable[[S, grpc.Server], None], servicer: S) -> None:
        """Serve unary methods in threads of their own: operators are answered even if clients hold all other threads.

        ``add`` is the generated function that adds such a servicer to a server.
        """
        self._operator_methods.add(add, servicer)

    def reflect(self, services: Collection[str]) -> None:
        """Offer reflection of the named services, of health and of reflection itself, and report them as serving."""
        self.rpc.add_generic_rpc_handlers((reflection_handler((*services, _HEALTH, SERVICE_NAME)),))
        for name in ("", *services):
            self._health.serve(name)

    def accompany(self, server: AbstractContextManager[object]) -> None:
        """Have another server serve as long as these two do: it is entered after them and left before them."""
        self._companions.append(server)

    def outlast(self, helper: AbstractContextManager[object]) -> None:
        """Have something help as long as the servers serve: it is entered before them and left after them."""
        self._helpers.append(helper)

    def watch(self, listener: str, ask: Ask) -> None:
        """Have a listener of this process asked, while the servers serve, whether it answers."""
        self._watch.add(listener, ask)

    def __enter__(self) -> ServerProcess:
        for helper in self._helpers:
            self._around.enter_context(helper)
        self.link.start()
        self.rpc.start()
        for server in self._companions:
            self._beside.enter_context(server)
        self._beside.enter_context(self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._health.end()
        self._beside.close()
        stopped = self.rpc.stop(_GRACE_SECONDS)
        self.link.close()
        stopped.wait()
        self._admission.close()
        self._operator_methods.close()
        self._around.close()
        self.endpoint.rpc.unlink(missing_ok=True)

    def _listener_ended(self, end_process: Callable[[], None], _: str) -> None:
        self._health.end()
        end_process()

    def _admit(self, method: str, context: grpc.ServicerContext) -> None:
        """Refuse a call of who has no link: its socket may let in a whole group, and links are for those who may call.

        Operators' calls are not asked here, since they show an admin key.
        """
        if not method.startswith(_OPEN_TO_ALL):
            self._admission.require_session(context)

    def _open(self, session: Session) -> None:
        self._admission.opened(session.token)
        session.on_close(lambda: self._admission.closed(session.token))
        self._opened(session)


def use_all_descriptors() -> None:
    """Raise the limit on open files to the system's maximum, since each mapped pool and each stream holds one.

    One is kept in reserve, so that this process sees others even when its clients have the rest.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    FOR_LOOKS.keep()
