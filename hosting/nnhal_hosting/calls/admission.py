"""Deciding which thread serves a call, and when: an interceptor of gRPC's server.

gRPC would give each call a thread before its message has come, and as many to one client as there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from nnhal.errors import HalError, invalid_argument
from nnhal.link.tenants import ON_BEHALF_METADATA
from nnhal.types import ErrorStatus
from nnhal_hosting.calls.answers import UntakenAnswers
from nnhal_hosting.calls.lanes import CallThreads, Lane, WaitingCall
from nnhal_hosting.calls.limits import CallLimits
from nnhal_hosting.calls.stalls import StallWatch
from nnhal_hosting.rpc import abort

if TYPE_CHECKING:
    _Interceptor = grpc.ServerInterceptor[Any, Any]
    _Handler = grpc.RpcMethodHandler[Any, Any]
else:  # generic in its stubs only
    _Interceptor = grpc.ServerInterceptor


class MessageMemory:
    """Bytes that calls share. Safe to use from several threads."""

    def __init__(self, limit: int, setting: str = "") -> None:
        """``setting`` names the limit at the end of refusals."""
        self._limit = limit
        self._setting = setting
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes that are charged now."""
        return self._held

    @contextmanager
    def charged(self, size: int, what: str) -> Iterator[None]:
        """Charge bytes while the context lasts. Raises RESOURCE_EXHAUSTED_TRANSIENT if too few are left."""
        with self._lock:
            if self._held + size > self._limit:
                others = f" while others hold {self._held}" if size <= self._limit else ""
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"{what} holds {size} bytes{others}; all together may hold {self._limit}{self._setting}",
                )
            self._held += size
        try:
            yield
        finally:
            with self._lock:
                self._held -= size


_OWN_THREADS = 2
"""Threads that a session may always have: one call of it may wait for something, and another one is served."""
_MOST_TENANTS = 32
"""Clients of one session's client that have lanes of their own at a time; others share that of the session."""
_WITHOUT_SESSION = 4
"""Calls without a session that are served at a time: most of them ask for health."""
_REFUSERS = 2
_STREAM_SECONDS = 1.0
"""Seconds for the first message of a stream: it is short, and a call that never sends it must not take a stream's
place."""


class _Share:
    """The lanes of one session: each of its client's own clients has one, if it says for whom it asks."""

    def __init__(self) -> None:
        self.calls = Lane(_OWN_THREADS)
        self.aside = Lane(1, may_share=False)
        """For calls that look at the session or end something of it, whatever its other calls do."""
        self._tenants: dict[object, Lane] = {}

    def lane_of(self, tenant: object) -> Lane:
        """The lane of a client's client, ``tenant``; None for the client itself. The caller holds the lock."""
        if tenant is None:
            return self.calls
        if tenant not in self._tenants and len(self._tenants) >= _MOST_TENANTS:
            self._tenants = {known: lane for known, lane in self._tenants.items() if lane.open}
            if len(self._tenants) >= _MOST_TENANTS:
                return self.calls
        return self._tenants.setdefault(tenant, Lane(_OWN_THREADS))


class CallAdmission(_Interceptor):
    """Serves the calls of each session in lanes of its own, those without a session in one lane, endless ones in one.

    Handlers with threads of their own are left alone. Safe to use from several threads.
    """

    def __init__(
        self,
        limits: CallLimits,
        token_key: str,
        endless: Collection[str] = (),
        is_aside: Callable[[str], bool] = lambda _: False,
        admit: Callable[[str, grpc.ServicerContext], object] = lambda *_: None,
    ) -> None:
        """``token_key`` is the metadata that names a call's session.

        Methods in ``endless`` are streams that end with their clients. Methods for which ``is_aside`` is true are
        served while a session's other calls wait. ``admit`` is called with a method before its message is received;
        it may abort the call, or raise HalError.
        """
        self._limits = limits
        self._token_key = token_key
        self._endless = frozenset(endless)
        self._is_aside = is_aside
        self._admit = admit
        self._threads = CallThreads(limits.threads)
        self._memory = MessageMemory(limits.memory_bytes, self._named("MEMORY_BYTES"))
        self._untaken = UntakenAnswers(limit_bytes=limits.memory_bytes)
        self._stalls = StallWatch(limits.stalled_secs, limits.memory_bytes)
        self._lock = threading.Lock()
        self._shares: dict[str, _Share] = {}
        self._without_session = Lane(_WITHOUT_SESSION, _WITHOUT_SESSION, may_share=False, newest_first=True)
        self._streams = Lane(limits.streams, limits.streams, may_share=False, patience=_STREAM_SECONDS)
        self._refusals = Lane(_REFUSERS, _REFUSERS, may_share=False)

    def opened(self, token: str) -> None:
        """Give a session lanes of its own."""
        with self._lock:
            self._shares[token] = _Share()

    def closed(self, token: str) -> None:
        """Take the lanes of a session away; calls that wait in them are served."""
        with self._lock:
            self._shares.pop(token, None)

    def require_session(self, context: grpc.ServicerContext) -> None:
        """Raise INVALID_ARGUMENT if a call carries the token of no session that was ``opened``."""
        token = _token(self._token_key, context.invocation_metadata())
        with self._lock:
            is_known = token in self._shares
        if not is_known:
            invalid_argument(f"the call needs the token of an open link as metadata {self._token_key!r}")

    def serve(self, method: str, token: str, work: Callable[[str], object]) -> None:
        """Serve a call that has come over a link, with its message, in the lane of its session.

        ``work`` gets why the call is only to be refused, or an empty text, and does not raise.
        """
        lane, refusal = self._lane(method, ((self._token_key, token),))
        call = WaitingCall(_nothing, refusal)

        def served() -> None:
            self._threads.received(call)
            call.work = _nothing  # it refers to the call in a circle
            work(call.refusal)

        call.work = served
        self._threads.submit(lane, call)

    @contextmanager
    def decoded(self, handler: _Handler, data: bytes, name: str) -> Iterator[Any]:
        """Decode a call's message, and hold its memory while the context lasts. Raises HalError."""
        with self._memory.charged(len(data), f"the request of {name}"):
            request = _decoded(handler, data, name)
            del data
            yield request

    def close(self) -> None:
        """Wait for the calls that are served."""
        self._stalls.close()
        self._threads.close()

    def intercept_service(
        self, continuation: Callable[[Any], _Handler | None], handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler | None:
        """Return the handler of a call, to run in the lane of its client."""
        handler = continuation(handler_call_details)
        if handler is None or hasattr(_behaviour(handler), "experimental_thread_pool"):
            return handler
        method = handler_call_details.method
        lane, refusal = self._lane(method, handler_call_details.invocation_metadata)
        return self._laned(method, handler, lane, refusal)

    def _lane(self, method: str, metadata: Any) -> tuple[Lane, str]:
        limits = self._limits
        if method in self._endless:
            if self._streams.open >= limits.streams:
                return self._refusals, self._full(limits.streams, "streams are open", "STREAMS")
            return self._streams, ""
        given = {key: value for key, value in metadata or () if key in (self._token_key, ON_BEHALF_METADATA)}
        with self._lock:
            share = self._shares.get(str(given.get(self._token_key, "")))
            calls = share.lane_of(given.get(ON_BEHALF_METADATA)) if share is not None else None
        full = self._full(limits.waiting, "calls wait already", "WAITING")
        if share is None or calls is None:
            if len(self._without_session.waiting) >= limits.waiting:
                self._threads.refuse_oldest(self._without_session, self._refusals, full)
            return self._without_session, ""
        lane: Lane = share.aside if self._is_aside(method) else calls
        return (self._refusals, full) if len(lane.waiting) >= limits.waiting else (lane, "")

    def _full(self, limit: int, what: str, setting: str) -> str:
        return f"{limit} {what}, which is as many as may at a time{self._named(setting)}"

    def _named(self, setting: str) -> str:
        """The name of a limit's setting, if it has one, to add to a sentence."""
        return f" ({self._limits.prefix}{setting})" if self._limits.prefix else ""

    def _laned(self, method: str, handler: _Handler, lane: Lane, refusal: str) -> _Handler:
        call = WaitingCall(_nothing, refusal)

        def received(requests: Iterator[Any], context: grpc.ServicerContext) -> AbstractContextManager[Any]:
            return self._received(handler, requests, context, call, method)

        def unary(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            size = 0
            try:
                with received(requests, context) as request:
                    answer = _behaviour(handler)(request, context)
                    data = handler.response_serializer(answer) if handler.response_serializer is not None else answer
                size = len(data)
                return data
            finally:
                self._note_answer(size, context)

        def stream(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            with received(requests, context) as request:
                yield from _behaviour(handler)(request, context)

        served: Any = stream if handler.response_streaming else unary
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        # gRPC looks for this attribute. A version that does not would give the call to the default threads.
        served.experimental_thread_pool = _Entrance(self._threads, lane, call)
        decode = handler.request_deserializer if handler.request_streaming else None
        made: _Handler = make(served, decode, handler.response_serializer if handler.response_streaming else None)
        return made

    def _note_answer(self, size: int, context: grpc.ServicerContext) -> None:
        """Have a call count as an answer of so many bytes until it has ended, which is when its client has it."""
        taken = self._untaken.add(size, context.cancel)
        if not context.add_callback(taken):
            taken()

    @contextmanager
    def _received(
        self,
        handler: _Handler,
        requests: Iterator[Any],
        context: grpc.ServicerContext,
        call: WaitingCall,
        method: str,
    ) -> Iterator[Any]:
        """Receive the message of a call, and hold its memory while the call is served.

        Any method is a stream of requests to gRPC, so that the call is here before its message is.
        """
        name = method.rpartition("/")[2]
        try:
            if call.refusal:
                raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, call.refusal)
            self._admit(method, context)
            if handler.request_streaming:
                self._threads.received(call)
                yield requests
                return
            with self._stalls.watching(context, call):
                data = next(requests, None)
            self._threads.received(call)
            if data is None:
                invalid_argument(f"{name} without a request, expected one message")
            with self.decoded(handler, data, name) as request:
                del data
                yield request
        except HalError as error:
            abort(context, error)


class _Entrance(ThreadPoolExecutor):
    """Entrance at which gRPC hands over the work of one call, which goes to its lane."""

    def __init__(self, threads: CallThreads, lane: Lane, call: WaitingCall) -> None:
        # The base class has threads of its own, and is there since gRPC asks for its type.
        self._calls = threads
        self._lane = lane
        self._call = call

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._call.work = partial(self._serve, future, fn, args, kwargs)
        self._calls.submit(self._lane, self._call)
        return future

    def _serve(self, future: Future[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        finally:
            self._calls.received(self._call)
            self._call.work = _nothing  # it refers to the request, and in a circle to this object


def _token(key: str, metadata: Any) -> str:
    return next((str(value) for name, value in metadata or () if name == key), "")


def _nothing() -> None:
    """Serve a call that has been served."""


def _behaviour(handler: _Handler) -> Any:
    return handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream


def _decoded(handler: _Handler, data: bytes, name: str) -> Any:
    if handler.request_deserializer is None:
        return data
    try:
        return handler.request_deserializer(data)
    except DecodeError:
        invalid_argument(f"the request of {name}: {len(data)} bytes that are not its message")
