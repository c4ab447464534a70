"""The gRPC server by grpc.aio, where ngh2 is missing: the same calls, with twice the processor time for small ones."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

from nnhal_hosting.access import Tls
from nnhal_hosting.calls.limits import connections_option, read_ahead_options
from nnhal_hosting.link_server import remove_stale_socket
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.calls import CallHead, Metadata, Method, deadline_in
from nnhal_service.v2.grpc.compression import AS_RECEIVED
from nnhal_service.v2.grpc.limits import UNIX, GrpcLimits
from nnhal_service.v2.grpc.statuses import STATUS, answer_for

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AioFront:
    """Serves methods at addresses. Use its methods in the loop."""

    TITLE = "grpc.aio"

    def __init__(
        self,
        addresses: Sequence[str],
        methods: Callable[[Sequence[str]], Mapping[str, Method]],
        limits: GrpcLimits,
        tls: Tls | None,
        socket_mode: int,
        ended: Callable[[], None],
    ) -> None:
        """``methods`` makes those of a server at these addresses, with the chosen ports. ``ended`` is called when the
        server has ended, by itself too: gRPC's loop ends if the path of a call is not UTF-8.

        Raises OSError if an address cannot be listened at.
        """
        self._ended = ended
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", limits.message_bytes),
                connections_option(limits.connections),
                ("grpc.max_concurrent_streams", limits.connection_calls),
                *read_ahead_options(),
                *AS_RECEIVED,
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            )
        )
        credentials = tls.grpc_credentials() if tls is not None else None
        self.addresses = tuple([self._bound(address, credentials, socket_mode) for address in addresses])
        services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        for method in methods(self.addresses).values():
            service = method.path[1:].rpartition("/")[0]
            services.setdefault(service, {})[method.name] = _handler(method)
        for service, handlers in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    async def start(self) -> None:
        await self._server.start()
        self._watch = asyncio.create_task(self._look_for_end())

    async def stop(self, grace: float) -> None:
        """Accept nothing more, and end what has not ended after ``grace`` seconds."""
        await self._server.stop(grace)

    async def _look_for_end(self) -> None:
        with suppress(Exception):  # gRPC logs why its loop has ended
            await self._server.wait_for_termination()
        self._ended()

    def _bound(self, address: str, credentials: grpc.ServerCredentials | None, socket_mode: int) -> str:
        """The address at which the server listens. Raises OSError."""
        path = Path(address.removeprefix(UNIX)) if address.startswith(UNIX) else None
        if path is not None:
            remove_stale_socket(path, socket.SOCK_STREAM)
            credentials = None
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}") from error
        if path is not None:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & socket_mode)
            return address
        return f"{address.rpartition(':')[0]}:{port}"


@dataclass(slots=True)
class _Peer:
    """The CallPeer of a call."""

    name: str
    user_is_admitted: bool = False


class _AioContext:
    """The GrpcContext of a call of grpc.aio, which does not tell its connections apart."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self.peer = _Peer(context.peer())
        left: float | None = context.time_remaining()
        self.head = CallHead.of(b"", left, b"", tuple(context.invocation_metadata() or ()))
        self.deadline_ns = deadline_in(left)

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self._context.set_trailing_metadata(tuple(metadata))

    async def read(self) -> bytes | None:
        message = await self._context.read()
        return message if isinstance(message, bytes) else None

    async def write(self, message: bytes) -> None:
        await self._context.write(message)


def _handler(method: Method) -> grpc.RpcMethodHandler[Any, Any]:
    if method.unary is None:
        return grpc.stream_stream_rpc_method_handler(_answered(method, _serve))
    return grpc.stream_unary_rpc_method_handler(_answered(method, _answer))


async def _answer(method: Method, context: _AioContext) -> bytes:
    data = await context.read()
    if data is None:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, "a call without a request, expected one message")
    assert method.unary is not None
    with method.limit:
        return await method.unary(data, context)


async def _serve(method: Method, context: _AioContext) -> None:
    assert method.stream is not None
    with method.limit:
        await method.stream(context)


def _answered(method: Method, serve: Callable[[Method, _AioContext], Any]) -> Any:
    async def answered(_: object, context: _Context) -> Any:
        call = _AioContext(context)
        try:
            if method.admit is not None:
                method.admit(call)
            return await serve(method, call)
        except Exception as error:
            method.note_refused(error, call)
            refusal = answer_for(error, method.name)
        await context.abort(STATUS[refusal.kind], refusal.message)

    return answered
