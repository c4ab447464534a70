"""gRPC's server, with an accept loop that no client can end.

The loop of grpcio 1.84 and 1.85 decodes the path of each call as UTF-8, and ends with the server if a path is none. It
does so only for calls of methods that it has not been told of, so all methods are registered here, and every other call
is refused before the loop sees it. Older versions have no registered methods, and decode the path within the call.

That loop also waits anew for the next call of every method after each call, which takes longer than many a request. So
each method accepts its own calls here, and the loop only waits for the end of the server.

Of every call it asks gRPC's core, in a task of its own, to be told when the client leaves. Each exchange with the core
costs as much as to decode, check and encode a small request. So a unary call that is answered soon asks that together
with its answer, and the core is asked for several calls at a time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined,unused-ignore] # grpcio has no types for it

from nnhal_hosting.calls import UntakenAnswers
from nnhal_service.v2.grpc.calls import Call
from nnhal_service.v2.grpc.handlers import Handlers
from nnhal_service.v2.grpc.statuses import STATUS, answer_for, answered, note_answer

_HAS_REGISTERED_METHODS = hasattr(cygrpc.AioServer, "_make_request_call_future")
_SOON_SECONDS = 0.01
"""A call that takes longer is watched: if its client leaves, it is cancelled; its answer is one that waits."""
_ASKED_FOR = 4
"""The calls of each method that the core is asked for at a time."""
_OK = grpc.StatusCode.OK.value[0]
_NO_FLAGS = 0
_HANDLE = ["method_name", "method_resolver", "interceptors", "rpc_state", "loop", "concurrency_exceeded"]
_SCHEDULE = ["rpc_coro", "rpc_state", "loop", "method_name"]
_EXECUTE = ["grpc_call_wrapper", "operations", "loop"]


def _has_parameters(function: str, expected: Sequence[str]) -> bool:
    found = getattr(cygrpc, function, None)
    return found is not None and list(inspect.signature(found).parameters) == expected


_SERVES_BY_METHOD = (
    _has_parameters("_handle_rpc", _HANDLE)
    and _has_parameters("_schedule_rpc_coro", _SCHEDULE)
    and _has_parameters("execute_batch", _EXECUTE)
)
"""True if grpcio has what its loop calls for a call in the form that is known here."""


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]
    untaken: UntakenAnswers
    unary: dict[str, Call[None, bytes]]
    """What serves unary calls, by their full names."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._methods: Handlers = {}
        self._calls: set[asyncio.Task[None]] = set()
        self.is_stopped = False

    def add_registered_method_handlers(self, handlers: Handlers) -> None:
        super().add_registered_method_handlers(handlers)
        self._methods = {**self._methods, **handlers}

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[Any]:
        """Return what the loop awaits for each registered method, and once, with None, for all others."""
        if method is None:
            return asyncio.get_running_loop().create_task(self._refuse_unknown())
        if not _SERVES_BY_METHOD:
            return super()._make_request_call_future(method)  # type: ignore[no-any-return]
        return asyncio.gather(*[self._serve(method) for _ in range(_ASKED_FOR)])

    async def _serve(self, method: bytes) -> None:
        name, loop = method.decode(), asyncio.get_running_loop()
        resolver = cygrpc._MethodResolver([], self._methods)
        unary = self.unary.get(name)
        while True:
            state = await self._request_registered_call(method)  # raises when the server stops, as the loop expects
            if unary is not None:
                served = _UnaryCall(self, state, loop).serve(unary, name)
            else:
                handled = cygrpc._handle_rpc(name, resolver, (), state, loop, False)
                served = cygrpc._schedule_rpc_coro(handled, state, loop, name)
                del handled
            call = loop.create_task(served)
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            del state, served, call

    async def shutdown(self, grace: float | None) -> None:
        await super().shutdown(grace)
        self.is_stopped = True

    async def _refuse_unknown(self) -> None:
        loop = asyncio.get_running_loop()
        refusals: set[asyncio.Task[None]] = set()
        while True:
            call = await self._request_call()  # raises when the server stops, as the loop expects
            refusal = loop.create_task(_refuse(cygrpc._ServicerContext(call, None, None, loop), self.untaken))
            refusals.add(refusal)
            refusal.add_done_callback(refusals.discard)
            del call, refusal


class _UnaryCall(cygrpc._ServicerContext):  # type: ignore[misc]
    """A unary call, and its context: one task from its beginning until the client has the answer."""

    __slots__ = ("_core", "_is_answered", "_peer", "_server", "_serving", "_task", "_timer", "_watch")

    def __new__(cls, _: _CoreServer, state: Any, loop: asyncio.AbstractEventLoop) -> _UnaryCall:
        call: _UnaryCall = super().__new__(cls, state, None, None, loop)
        return call

    def __init__(self, server: _CoreServer, state: Any, loop: asyncio.AbstractEventLoop) -> None:
        """``state`` is what the core knows of it."""
        self._server, self._core, self._serving = server, state, loop
        self._peer = ""
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_answered = False
        self._timer = loop.call_later(_SOON_SECONDS, self._is_late)

    def peer(self) -> str:
        self._peer = self._peer or super().peer()
        return self._peer

    async def read(self) -> bytes | None:
        """The next message; None if none comes."""
        message = cygrpc.ReceiveMessageOperation(_NO_FLAGS)
        if self._server.is_stopped:  # the core has no calls any more
            return None
        try:
            await cygrpc.execute_batch(self._core, (message,), self._serving)
        except cygrpc.ExecuteBatchError:
            return None
        received: bytes | None = message.message()
        return received

    async def serve(self, call: Call[None, bytes], name: str) -> None:
        """Answer what ``call`` returns, or the error that it raises. It receives its message itself."""
        self._task = asyncio.current_task()
        try:
            response = await call(None, self)
            content = (
                cygrpc.SendMessageOperation(response, _NO_FLAGS),
                cygrpc.SendStatusFromServerOperation(self.trailing_metadata(), _OK, "", _NO_FLAGS),
            )
            await self._answer(*content)
        except cygrpc.BaseError:
            pass  # the client has left, or the server ends
        except Exception as error:
            refusal = answer_for(error, name)
            code = STATUS[refusal.kind].value[0]
            with suppress(cygrpc.BaseError):
                await self._answer(cygrpc.SendStatusFromServerOperation((), code, refusal.message, _NO_FLAGS))
        finally:
            self._timer.cancel()

    async def _answer(self, *operations: object) -> None:
        """Send an answer; returns when the client has it. Raises BaseError if it has left."""
        if self._server.is_stopped:  # the core has no calls any more
            return
        self._is_answered = True
        if self._watch is None:
            operations = (*operations, cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS))
        else:
            note_answer(self._server.untaken, self, self._task)
        initial = cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS)
        await cygrpc.execute_batch(self._core, (initial, *operations), self._serving)

    def _is_late(self) -> None:
        if self._is_answered:
            note_answer(self._server.untaken, self, self._task)
        else:
            self._watch = self._serving.create_task(self._cancel_if_left())

    async def _cancel_if_left(self) -> None:
        end = cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)
        with suppress(cygrpc.BaseError):
            await cygrpc.execute_batch(self._core, (end,), self._serving)
        if end.cancelled() and not self._is_answered and self._task is not None:
            self._task.cancel()


async def _refuse(context: Any, untaken: UntakenAnswers) -> None:
    note_answer(untaken, context, asyncio.current_task())
    with suppress(cygrpc.AbortError, cygrpc.ExecuteBatchError):  # the latter if the client has left
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")


def new_server(options: Sequence[tuple[str, int]], untaken: UntakenAnswers) -> grpc.aio.Server:
    """A server without services, which does not listen yet. Call it in the loop in which it is to serve.

    Its refusals of unknown methods count among the ``untaken`` answers.
    """
    original = cygrpc.AioServer
    if _HAS_REGISTERED_METHODS:
        cygrpc.AioServer = _CoreServer  # what a grpc.aio.Server makes
    try:
        server = grpc.aio.server(options=options)
    finally:
        cygrpc.AioServer = original
    if _HAS_REGISTERED_METHODS:
        core: Any = server
        core._server.untaken, core._server.unary = untaken, {}
    return server


def add_unary_calls(
    server: grpc.aio.Server, service: str, calls: Mapping[str, Call[None, bytes]], untaken: UntakenAnswers
) -> None:
    """Have a server that does not serve yet serve these calls of a service. They receive their messages themselves."""
    handlers: Handlers = {
        name: grpc.stream_unary_rpc_method_handler(answered(call, untaken)) for name, call in calls.items()
    }
    add_services(server, {service: handlers})
    if _HAS_REGISTERED_METHODS:
        core: Any = server
        core._server.unary.update({f"/{service}/{name}": call for name, call in calls.items()})


def add_services(server: grpc.aio.Server, services: Mapping[str, Handlers]) -> None:
    """Have a server that does not serve yet serve these, by their names."""
    for name, handlers in services.items():
        server.add_registered_method_handlers(name, dict(handlers))  # type: ignore[attr-defined]
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, dict(handlers)),))
