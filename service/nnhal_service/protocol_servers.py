"""The servers of the protocol, gRPC and HTTP, in one event loop, over whatever is behind them.

The modules of HTTP are imported only if it is enabled: they take as long to import as the rest of the framework.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nnhal_hosting.access import TcpListener, Tls
from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.protocol_settings import connection_limits, hosts_of, users_of
from nnhal_service.serving import ServingLoop
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.settings import ServiceSettings
from nnhal_service.v2.backend import LogSettings, ModelRepository, ServerDescription, SharedMemory, TraceSettings
from nnhal_service.v2.grpc import GrpcLimits, GrpcServer, InferenceServicer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from nnhal_service.v2.http import HttpServer

_REFUSED_IN_WORDS = 64 << 20
"""Bytes by which a message may exceed the memory of requests and be refused with the name of that limit."""


@dataclass(frozen=True, slots=True)
class ServerBackends:
    """Services behind the V2 servers, and what they share."""

    server: ServerDescription
    repository: ModelRepository
    trace: TraceSettings
    log: LogSettings
    memory: SharedMemory | None
    """The shared memory of clients; None if they may register none."""
    guard: Guard
    budget: RequestMemoryBudget
    """The memory that all requests share."""
    loop: ServingLoop
    tls: Tls | None
    """The keys of all TCP ports; None without TLS."""
    connections: dict[str, object] = field(default_factory=dict)
    """The TCP connections that gRPC servers hold, by gRPC's names of the peers."""


def instance_memory_of(budget: RequestMemoryBudget) -> InstanceMemory:
    """The memory of instances within the budget of requests, for which those that are kept are released."""
    memory = InstanceMemory(partial(budget.take, already=0), budget.give_back)
    budget.reclaim = memory.reclaim
    return memory


def grpc_server(
    settings: ServiceSettings,
    backends: ServerBackends,
    addresses: Sequence[str],
    directory: Path,
    inherited: Mapping[str, socket.socket] = MappingProxyType({}),
) -> GrpcServer:
    """Return the gRPC server at ``addresses``; ``inherited`` are sockets that listen at some of them already.

    ``directory`` is that of the framework's endpoint. Raises OSError if an address cannot be listened at.
    """
    servicer = InferenceServicer(
        backends.server,
        backends.repository,
        backends.trace,
        backends.log,
        backends.memory,
        native_directory=str(directory.resolve()),
        guard=backends.guard,
        budget=backends.budget,
    )
    return GrpcServer(
        backends.loop,
        addresses,
        servicer,
        backends.repository,
        GrpcLimits(connections=settings.grpc_max_connections, message_bytes=_message_bytes(settings)),
        backends.tls,
        backends.guard,
        partial(users_of, settings),
        0o666 if settings.tokens is not None else 0o660 if settings.allowed_uids else 0o600,
        backends.connections,
        inherited,
    )


def http_server(
    settings: ServiceSettings,
    backends: ServerBackends,
    listener: TcpListener,
    connections: SharedNumber | None = None,
    inherited: socket.socket | None = None,
) -> HttpServer:
    """Return the HTTP server. ``connections`` are those that are open, if other processes listen at the port too.
    ``inherited`` is a socket that listens at the address already.

    Raises OSError if the address cannot be listened at.
    """
    from nnhal_service.v2.http import HttpServer, create_app
    from nnhal_service.v2.http.services import Services

    def app(bound: TcpListener) -> ASGIApp:
        return create_app(replace(services, guard=backends.guard.of_users(users_of(settings, bound))))

    services = Services(
        backends.server,
        backends.repository,
        backends.trace,
        backends.log,
        backends.guard,
        backends.loop,
        settings.http_max_input_size,
        backends.memory,
        backends.budget,
        hosts_of(settings, listener),
    )
    limits = connection_limits(settings)
    return HttpServer(listener, app, backends.loop, backends.tls, limits, connections, inherited)


def _message_bytes(settings: ServiceSettings) -> int:
    """The longest message that is received. What exceeds the memory of requests by far is not read to be refused."""
    if not settings.request_memory:
        return settings.grpc_max_message_size
    return min(settings.grpc_max_message_size, settings.request_memory + _REFUSED_IN_WORDS)
