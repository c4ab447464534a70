"""Calls over channels of the link: gRPC's unary methods, for clients without gRPC (docs/reference/protocol.md)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.link import SESSION_METADATA, Channel, ChannelClosedError, ProtocolError
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.link.numbers import CallNumbers
from nnhal.memory import create_read_only, is_tmpfs
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_hosting.calls import CallAdmission
from nnhal_hosting.link_server import Session
from nnhal_hosting.operator_methods import HandlerCollector
from nnhal_hosting.rpc import answered_error
from nnhal_hosting.sessions import Ownership, say_last_words

S = TypeVar("S")
_PACKAGE = "nnhal.v1."
_MOST_INLINE = MAX_MESSAGE_BYTES - 64
"""Bytes of an answer that its datagram has room for, beside the other fields."""


class LinkCalls:
    """Serves unary methods over channels, each call in the lane of its session, beside those over gRPC."""

    def __init__(self, admission: CallAdmission, message_bytes: int) -> None:
        """``message_bytes`` is how long a request may be."""
        self.admission = admission
        self._message_bytes = message_bytes
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add(self, add: Callable[[S, grpc.Server], None], servicer: S) -> None:
        """Serve a servicer's unary methods; ``add`` is the generated function that adds such a servicer to a server."""
        collector: Any = HandlerCollector(self._keep)
        add(servicer, collector)

    def open(self, session: Session) -> Descriptor:
        """Open a channel for calls, and return the client's end. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        owner = Ownership(session)
        channel, theirs = owner.make_channel()
        served = _CallChannel(self, session.token, channel)
        owner.serve_exchanges(channel, "a channel of calls", served.receive, served.end)
        return theirs

    def answer(self, call: wire.MethodCall, received: Sequence[Descriptor], context: CallContext) -> bytes:
        """Return the answer of a method. Raises HalError."""
        handler = self._handlers.get(call.method)
        if handler is None or handler.unary_unary is None or handler.response_serializer is None:
            raise HalError(ErrorStatus.GENERAL_FAILURE, "the method is not served over the link")
        if call.request_bytes > self._message_bytes:
            raise HalError(
                ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                f"the request has {call.request_bytes} bytes, expected at most {self._message_bytes}",
            )
        data = _read(received[0], call.request_bytes) if received else call.request
        with self.admission.decoded(handler, data, call.method) as request:
            method: Callable[[Any, Any], Any] = handler.unary_unary
            answer: bytes = handler.response_serializer(method(request, context))
            return answer

    def _keep(self, service: str, handlers: Mapping[str, Any]) -> None:
        for name, handler in handlers.items():
            self._handlers[f"{service.removeprefix(_PACKAGE)}/{name}"] = handler


class CallContext:
    """The context of a call for a method of a servicer, as gRPC has it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] | None = []

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """Return the session's token as a call over gRPC has it."""
        return ((SESSION_METADATA, self._token),)

    def is_active(self) -> bool:
        """True until the call ends or is cancelled."""
        return self._callbacks is not None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call ends; return False if it has."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
        return self.is_active()

    def abort_with_status(self, status: grpc.Status) -> None:
        """Do nothing: who aborts a call raises its error next (``nnhal_hosting.rpc.abort``)."""

    def end(self) -> None:
        """End the call, or cancel it."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks or [], None
        for callback in callbacks:
            callback()


class _CallChannel:
    """A channel with one call at a time."""

    def __init__(self, calls: LinkCalls, token: str, channel: Channel) -> None:
        self._calls = calls
        self._token = token
        self._channel = channel
        self._numbers = CallNumbers()
        self._context: CallContext | None = None
        """Of the call that is not answered yet."""

    def receive(self) -> None:
        """Take the next call, and have it served. Raises what ends the channel."""
        number = b""
        try:
            message, received = self._channel.receive_with_descriptors()
            message, number = self._numbers.split(message)
            if self._context is not None:
                raise ProtocolError("a call came before the one before it was answered")
            call = _parsed(message)
            if len(received) != (call.request_bytes > 0):
                raise ProtocolError(f"{len(received)} descriptors came with a call of {call.request_bytes} bytes")
        except ProtocolError as error:
            say_last_words(self._channel, error, _refusal, number)
            raise
        self._context = CallContext(self._token)
        work = partial(self._serve, call, received, self._context, number)
        self._calls.admission.serve(f"/{_PACKAGE}{call.method}", self._token, work)

    def end(self) -> None:
        """Cancel the call that is under way."""
        if (context := self._context) is not None:
            context.end()

    def _serve(
        self, call: wire.MethodCall, received: list[Descriptor], context: CallContext, number: bytes, refusal: str
    ) -> None:
        if not context.is_active():  # its client has gone
            return
        descriptors: list[Descriptor] = []
        try:
            if refusal:
                raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, refusal)
            data = self._calls.answer(call, received, context)
            answer = wire.MethodAnswer(answer=data)
            if len(data) > _MOST_INLINE:
                descriptors = [create_read_only([(0, np.frombuffer(data, np.uint8))], len(data)).descriptor]
                answer = wire.MethodAnswer(answer_bytes=len(data))
        except Exception as error:
            answered = answered_error(error, "a call failed", method=call.method)
            answer = wire.MethodAnswer(
                status=types_pb2.ErrorStatus.ValueType(answered.status), message=answered.message
            )
        context.end()
        self._context = None
        try:
            self._channel.send(answer.SerializeToString() + number, descriptors)
        except ChannelClosedError:
            return
        if self._channel.has_unsent:  # it does not read its answers
            self._channel.shutdown()


def _parsed(message: bytes) -> wire.MethodCall:
    try:
        return wire.MethodCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are not a MethodCall") from error


def _refusal(message: str) -> bytes:
    answer = wire.MethodAnswer(status=types_pb2.ERROR_STATUS_INVALID_ARGUMENT, message=message)
    return answer.SerializeToString()


def _read(memory: Descriptor, size: int) -> bytes:
    """Copy a request out of shared memory. Raises INVALID_ARGUMENT."""
    data = bytearray(size)
    if not is_tmpfs(memory):  # any other file may keep whoever reads it waiting
        invalid_argument("the request lies in a file, expected shared memory")
    found = memory.read_into(memoryview(data), 0)
    if found != size:
        invalid_argument(f"the request has {found} bytes in its memory, expected {size}")
    return bytes(data)
