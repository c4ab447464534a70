"""gRPC's server, with an accept loop that no client can end.

The loop of grpcio 1.84 and 1.85 decodes the path of each call as UTF-8, and ends with the server if a path is none. It
does so only for calls of methods that it has not been told of, so all methods are registered here, and every other call
is refused before the loop sees it. Older versions have no registered methods, and decode the path within the call.

That loop also waits anew for the next call of every method after each call, which takes longer than many a request. So
each method accepts its own calls here, and the loop only waits for the end of the server.

It asks gRPC's core of every call, in a task of its own, to be told of its end. Here unary calls that are answered soon
ask that together with their answer: an exchange with the core costs as much as to decode, check and encode a request.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined] # grpcio has no types for it

from nnhal_hosting.calls import UntakenAnswers
from nnhal_service.v2.grpc.calls import Call
from nnhal_service.v2.grpc.handlers import Handlers
from nnhal_service.v2.grpc.statuses import STATUS, answer_for, note_answer

_HAS_REGISTERED_METHODS = hasattr(cygrpc.AioServer, "_make_request_call_future")
_SOON_SECONDS = 0.01
"""A call that takes longer is watched: if its client leaves, it is cancelled."""
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
"""Whether grpcio has what its loop calls for a call in the form that is known here."""


class _CoreServer(cygrpc.AioServer):  # type: ignore[misc]
    untaken: UntakenAnswers

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._methods: Handlers = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    def add_registered_method_handlers(self, handlers: Handlers) -> None:
        super().add_registered_method_handlers(handlers)
        self._methods = {**self._methods, **handlers}

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Task[Any]:
        """What the loop awaits for each registered method, and once, with None, for all that are not registered."""
        if method is not None and not _SERVES_BY_METHOD:
            return super()._make_request_call_future(method)  # type: ignore[no-any-return]
        accepting = self._refuse_unknown() if method is None else self._serve(method)
        return asyncio.get_running_loop().create_task(accepting)

    async def _serve(self, method: bytes) -> None:
        name, loop = method.decode(), asyncio.get_running_loop()
        resolver = cygrpc._MethodResolver([], self._methods)
        unary: Any = self._methods[name].stream_unary  # grpc has no type for coroutines here
        while True:
            state = await self._request_registered_call(method)  # raises when the server stops, as the loop expects
            if unary is not None:
                served = self._answer(unary, state, loop, name)
            else:
                handled = cygrpc._handle_rpc(name, resolver, (), state, loop, False)
                served = cygrpc._schedule_rpc_coro(handled, state, loop, name)
                del handled
            call = loop.create_task(served)
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            del state, served, call

    async def _answer(self, call: Call[None, bytes], state: Any, loop: asyncio.AbstractEventLoop, name: str) -> None:
        """Serve a unary call, which receives its message itself. This ends when the client has the answer."""
        context = cygrpc._ServicerContext(state, None, None, loop)
        watch = _LateWatch(state, context, loop)
        answer: tuple[object, ...] = ()
        try:
            response = await call(None, context)
            answer = (
                cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),
                cygrpc.SendMessageOperation(response, _NO_FLAGS),
                cygrpc.SendStatusFromServerOperation(context.trailing_metadata(), _OK, "", _NO_FLAGS),
            )
        except cygrpc.BaseError:
            pass  # it has been answered with an error, or cannot be
        except Exception as error:
            refusal = answer_for(error, name)
            code = STATUS[refusal.kind].value[0]
            answer = (
                cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),
                cygrpc.SendStatusFromServerOperation((), code, refusal.message, _NO_FLAGS),
            )
        finally:
            end = watch.end()
        try:
            if not self._is_stopped:  # if it is, the core has no calls any more
                await cygrpc.execute_batch(state, (*answer, *end), loop)
        except cygrpc.ExecuteBatchError:
            pass  # the client has left

    async def shutdown(self, grace: float | None) -> None:
        await super().shutdown(grace)
        self._is_stopped = True

    async def _refuse_unknown(self) -> None:
        loop = asyncio.get_running_loop()
        refusals: set[asyncio.Task[None]] = set()
        while True:
            call = await self._request_call()  # raises when the server stops, as the loop expects
            refusal = loop.create_task(_refuse(cygrpc._ServicerContext(call, None, None, loop), self.untaken))
            refusals.add(refusal)
            refusal.add_done_callback(refusals.discard)
            del call, refusal


class _LateWatch:
    """Cancels the task of a call if its client leaves. gRPC's core is asked to tell that once the call takes long."""

    __slots__ = ("_asked", "_context", "_loop", "_state", "_task", "_timer")

    def __init__(self, state: Any, context: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Call it in the task."""
        self._state, self._context, self._loop = state, context, loop
        self._task = asyncio.current_task()
        self._asked: asyncio.Task[None] | None = None
        self._timer = loop.call_later(_SOON_SECONDS, self._ask)

    def end(self) -> tuple[object, ...]:
        """Watch no longer, and return what is to be asked of the core together with the answer."""
        self._timer.cancel()
        self._task = None
        return () if self._asked is not None else (cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),)

    def _ask(self) -> None:
        self._asked = self._loop.create_task(self._cancel_if_left())

    async def _cancel_if_left(self) -> None:
        end = cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)
        with suppress(cygrpc.ExecuteBatchError):
            await cygrpc.execute_batch(self._state, (end,), self._loop)
        if end.cancelled() and self._task is not None and not self._context.done():
            self._task.cancel()


async def _refuse(context: Any, untaken: UntakenAnswers) -> None:
    note_answer(untaken, context)
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
        core._server.untaken = untaken
    return server


def add_services(server: grpc.aio.Server, services: Mapping[str, Handlers]) -> None:
    """Have a server that does not serve yet serve these, by their names."""
    for name, handlers in services.items():
        server.add_registered_method_handlers(name, dict(handlers))  # type: ignore[attr-defined]
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, dict(handlers)),))
