"""A session with a device at the level of messages. Whatever waits in it does so for a limited time."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import DecodeError

from nnhal.codec import error_from_rpc, model_to_wire, request_to_wire
from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.fence import Fence
from nnhal.link import SESSION_METADATA
from nnhal.link.channel import MAX_DESCRIPTORS_PER_MESSAGE, MAX_MESSAGE_BYTES, peer_credentials
from nnhal.link.client import PROTOCOL_VERSION
from nnhal.link.numbers import NUMBERED_ANSWERS
from nnhal.remote import open_rpc
from nnhal.types import ErrorStatus, Model, Request
from nnhal.v1 import (
    backend_pb2_grpc,
    buffer_pb2_grpc,
    burst_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    execution_pb2_grpc,
    fenced_execution_callback_pb2_grpc,
    link_pb2,
    model_pb2,
    prepared_model_pb2_grpc,
    request_pb2,
    types_pb2,
)
from nnhal_conformance.rule import BrokenRuleError, UnservedMethodError

T = TypeVar("T")
CLIENT_NAME = "nnhal-check"
_QUIET_SECONDS = 0.03
"""How long a socket on which nothing may come is watched."""


class Datagram(NamedTuple):
    """A datagram and the descriptors that came with it."""

    message: bytes
    descriptors: list[Descriptor]


class Datagrams(Closing):
    """One end of a connected SOCK_SEQPACKET socket, on which any bytes and any descriptors can be sent."""

    def __init__(self, connection: socket.socket, seconds: float, what: str) -> None:
        """``what`` names the socket in messages."""
        self._socket, self.what, self.seconds = connection, what, seconds
        weakref.finalize(self, connection.close)
        connection.settimeout(seconds)

    def fileno(self) -> int:
        """Its descriptor's number."""
        return self._socket.fileno()

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one datagram. If the other side has closed the socket, nothing happens: what it said can be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            try:
                if descriptors:
                    socket.send_fds(self._socket, [message], list(descriptors))
                else:
                    self._socket.send(message)
            except TimeoutError:
                raise BrokenRuleError(f"{self.what} took no datagram for {self.seconds:g} s") from None

    def receive(self) -> Datagram | None:
        """Return the next datagram, or None at the end. Raises BrokenRuleError if neither comes in time."""
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS_PER_MESSAGE * array("i").itemsize)
        for _ in range(2):  # the kernel reports ECONNRESET once, before what still waits to be read
            try:
                message, ancillary, _, _ = self._socket.recvmsg(MAX_MESSAGE_BYTES + 1, room, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                continue
            except TimeoutError:
                raise BrokenRuleError(f"nothing came on {self.what} for {self.seconds:g} s") from None
            numbers = [number for _, _, data in ancillary for number in array("i", data)]
            descriptors = [Descriptor(number) for number in numbers]
            if message:
                return Datagram(message, descriptors)
            poll = select.poll()
            poll.register(self._socket, select.POLLRDHUP)
            if not poll.poll(0):
                raise BrokenRuleError(f"an empty datagram came on {self.what}, which reads like its end")
            return None
        return None

    def answer(self, message: bytes, descriptors: Sequence[int] = ()) -> Datagram:
        """Send a datagram and return what answers it. Raises BrokenRuleError if nothing does."""
        self.send(message, descriptors)
        answer = self.receive()
        if answer is None:
            raise BrokenRuleError(f"{self.what} was closed, expected an answer")
        return answer

    def require_end(self) -> None:
        """Check that the other side closes it, and says no more."""
        more = self.receive()
        if more is not None:
            raise BrokenRuleError(f"{self.what} brought {len(more.message)} bytes, expected its end")

    def require_quiet(self) -> None:
        """Check that nothing more can be read, and that it is open."""
        self._socket.settimeout(_QUIET_SECONDS)
        try:
            more = self._socket.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            return
        except OSError as error:
            raise BrokenRuleError(f"{self.what} failed ({error.strerror}), expected it to stay open") from error
        finally:
            self._socket.settimeout(self.seconds)
        got = f"another answer of {len(more)} bytes" if more else "the end"
        raise BrokenRuleError(f"{self.what} brought {got}, expected one answer for each call")

    def end_sending(self) -> None:
        """Shut down this side's direction."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class RawLink(Datagrams):
    """A connection to a link socket. Its requests may come from several threads: each waits for the reply before."""

    def __init__(self, endpoint: Endpoint, seconds: float, hello: bool = True) -> None:
        """Connect, and say Hello unless that is the caller's business. Raises DeadObjectError or TransportError."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(seconds)
        try:
            connection.connect(str(endpoint.link))
        except OSError as error:
            connection.close()
            raise DeadObjectError(f"no link at {endpoint.link}: {error.strerror or error}") from error
        super().__init__(connection, seconds, "the link")
        self._issued: dict[Descriptor, int] = {}
        self._asking = threading.RLock()
        self.welcome = link_pb2.Welcome()
        if hello:
            reply = self.ask(hello=hello_of([NUMBERED_ANSWERS]))
            if reply.WhichOneof("reply") != "welcome":
                self.close()
                raise TransportError(f"Hello was answered with {_words(reply)}, expected Welcome")
            self.welcome = reply.welcome

    @property
    def peer_pid(self) -> int:
        """The id of the process that serves the link, as the kernel says."""
        return peer_credentials(self._socket)[0]

    def ask(self, descriptors: Sequence[int] = (), **request: Any) -> link_pb2.LinkReply:
        """Send a request and return the reply, without descriptors that come with it."""
        return self._reply(link_pb2.LinkRequest(**request), descriptors)[0]

    def put(self, *descriptors: int) -> list[int]:
        """Put descriptors, which must be taken, as many at a time as a datagram may carry. Raises BrokenRuleError."""
        numbers: list[int] = []
        for start in range(0, len(descriptors), MAX_DESCRIPTORS_PER_MESSAGE):
            given = descriptors[start : start + MAX_DESCRIPTORS_PER_MESSAGE]
            reply = self.ask(given, put=link_pb2.Put(count=len(given)))
            if len(reply.put.descriptor_ids) != len(given):
                raise BrokenRuleError(f"a put of {len(given)} was answered with {_words(reply)}, expected as many ids")
            numbers += reply.put.descriptor_ids
        return numbers

    def issue(self, descriptor: Descriptor) -> int:
        """Return the id of a descriptor, which is put at the first call."""
        with self._asking:
            if descriptor not in self._issued:
                (self._issued[descriptor],) = self.put(descriptor.fileno())
            return self._issued[descriptor]

    def drop(self, *numbers: int) -> link_pb2.LinkReply:
        """Have the device close descriptors; those of ``issue`` if none are given."""
        if not numbers:
            numbers = tuple(self._issued.values())
            self._issued.clear()
        return self.ask(drop=link_pb2.Drop(descriptor_ids=numbers))

    def take(self, number: int, what: str) -> Descriptor:
        """Take a descriptor that a call has named for something. Raises BrokenRuleError."""
        reply, descriptors = self._reply(link_pb2.LinkRequest(take=link_pb2.Take(descriptor_id=number)))
        if reply.WhichOneof("reply") != "take" or len(descriptors) != 1:
            raise BrokenRuleError(
                f"Take of {number}, {what}: got {_words(reply)} with {len(descriptors)}, expected TakeDone and 1"
            )
        return descriptors[0]

    def _reply(
        self, request: link_pb2.LinkRequest, descriptors: Sequence[int] = ()
    ) -> tuple[link_pb2.LinkReply, list[Descriptor]]:
        with self._asking:
            message, received = self.answer(request.SerializeToString(), descriptors)
        try:
            return link_pb2.LinkReply.FromString(message), received
        except DecodeError:
            raise BrokenRuleError(f"{len(message)} bytes on the link, expected a LinkReply") from None


def hello_of(capabilities: Sequence[link_pb2.LinkCapability.ValueType]) -> link_pb2.Hello:
    """The first request of a link, whose client has some capabilities."""
    return link_pb2.Hello(protocol_version=PROTOCOL_VERSION, client_name=CLIENT_NAME, capabilities=capabilities)


def _words(reply: link_pb2.LinkReply) -> str:
    return " ".join(str(reply).split()) or "an empty reply"


class DeviceSession(Closing):
    """A link, a gRPC channel and the stubs."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        """Open it. Raises DeadObjectError if no process serves, TransportError if it refuses."""
        self.seconds, self._place = seconds, str(endpoint.directory)
        self.link = RawLink(endpoint, seconds)
        self.rpc = open_rpc(endpoint)
        self.metadata: tuple[tuple[str, str], ...] = ((SESSION_METADATA, self.link.welcome.session_token),)
        self._sockets: list[Datagrams] = []
        self.device = device_pb2_grpc.DeviceServiceStub(self.rpc)
        self.prepared_model = prepared_model_pb2_grpc.PreparedModelServiceStub(self.rpc)
        self.execution = execution_pb2_grpc.ExecutionServiceStub(self.rpc)
        self.burst = burst_pb2_grpc.BurstServiceStub(self.rpc)
        self.buffer = buffer_pb2_grpc.BufferServiceStub(self.rpc)
        self.callback = fenced_execution_callback_pb2_grpc.FencedExecutionCallbackServiceStub(self.rpc)
        self.backend = backend_pb2_grpc.BackendServiceStub(self.rpc)

    def call(self, method: Callable[..., T], message: Any) -> T:
        """Make a unary call. Raises HalError, UnservedMethodError, DeadObjectError or TransportError."""
        try:
            return method(message, metadata=self.metadata, timeout=self.seconds)
        except grpc.RpcError as error:
            raise self._failure(error, message) from error.with_traceback(None)

    def preparation(
        self, method: Callable[..., Iterable[Any]], message: Any
    ) -> tuple[list[device_pb2.Preparation], HalError | None]:
        """Return all events of a preparation, and the error with which the device ended the call, if it did.

        Raises UnservedMethodError, DeadObjectError or TransportError.
        """
        events: list[device_pb2.Preparation] = []
        try:
            stream = method(message, metadata=self.metadata, timeout=self.seconds)
            events.extend(event.preparation for event in stream)
        except grpc.RpcError as error:
            failure = self._failure(error, message)
            if not isinstance(failure, HalError):
                raise failure from error.with_traceback(None)
            return events, failure
        return events, None

    def prepare(self, model: Model) -> int:
        """Prepare a model and return its handle. Raises HalError."""
        message = device_pb2.PrepareModelWithConfigRequest(model=self.model(model), config=config_of())
        events, error = self.preparation(self.device.PrepareModelWithConfig, message)
        if error is not None:
            raise error
        if not events or events[-1].WhichOneof("event") != "notified":
            raise BrokenRuleError("a preparation ended without 'notified', expected exactly one")
        outcome = events[-1].notified
        if outcome.status:
            raise HalError(ErrorStatus(outcome.status), outcome.message)
        return outcome.prepared_model

    def model(self, model: Model) -> model_pb2.Model:
        """Encode a model."""
        return model_to_wire(model, self.link.issue)

    def request(self, request: Request) -> request_pb2.Request:
        """Encode a request."""
        return request_to_wire(request, self.link.issue)

    def take_socket(self, number: int, what: str) -> Datagrams:
        """Take a channel that a call has named."""
        descriptor = self.link.take(number, what)
        try:
            connection = socket.socket(fileno=os.dup(descriptor.fileno()))
        except OSError as error:
            raise BrokenRuleError(f"descriptor {number} for {what} is no socket, expected a connected one") from error
        if (connection.family, connection.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            raise BrokenRuleError(f"{what} is {connection.type.name}, expected a unix socket of type SOCK_SEQPACKET")
        self._sockets.append(Datagrams(connection, self.seconds, what))
        return self._sockets[-1]

    def take_fence(self, number: int) -> Fence:
        """Take a fence that a call has named."""
        try:
            return Fence.received(self.link.take(number, "a fence"))
        except ValueError as error:
            raise BrokenRuleError(f"descriptor {number} is {error}, expected the end of a socket pair") from error

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self.link.close()
        self.rpc.close()

    def _failure(self, error: grpc.RpcError, message: Any) -> NnhalError:
        method = str(message.DESCRIPTOR.name).removesuffix("Request").replace("Service", ".", 1)
        call: Any = error  # gRPC's stubs raise errors that are calls as well, which its types do not say
        code = call.code() if isinstance(call, grpc.Call) else None
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return UnservedMethodError(method)
        failure = error_from_rpc(error, self._place)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and not isinstance(failure, HalError):
            return TransportError(f"{method} was not answered within {self.seconds:g} s")
        if not isinstance(failure, HalError | DeadObjectError) and code is not None:
            return TransportError(
                f"{method} failed with gRPC's {code.name}, without an ErrorDetail: {call.details() or 'no message'}"
            )
        return failure


def config_of(**fields: Any) -> device_pb2.PrepareModelConfig:
    """A config of preparations, with some fields changed."""
    given = {
        "preference": types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
        "priority": types_pb2.PRIORITY_MEDIUM,
        "deadline_ns": -1,
        "cache_token": bytes(32),
    }
    return device_pb2.PrepareModelConfig(**{**given, **fields})
