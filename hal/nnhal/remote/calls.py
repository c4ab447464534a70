"""Calls to a process: one gRPC channel and one link, and errors as the contract has them."""

from __future__ import annotations

import contextlib
import os
import stat
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar

import grpc

from nnhal.codec import error_from_rpc
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError, general_failure
from nnhal.link import Channel, Link
from nnhal.link.channel import channel_from
from nnhal.remote.watch import Watch

T = TypeVar("T")
S = TypeVar("S", covariant=True)
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A shared pool would keep a new session waiting because an old one has just failed to connect.
    ("grpc.use_local_subchannel_pool", 1),
)
_WATCHED_SECONDS = 60.0
"""What a unary call may take at most where the process is watched."""


class _Answers(Protocol[S]):
    """What gRPC gives for a call that streams."""

    def __iter__(self) -> Iterator[S]: ...

    def cancel(self) -> object: ...


def open_rpc(endpoint: Endpoint) -> grpc.Channel:
    """A gRPC channel to a process; it connects with the first call."""
    return grpc.insecure_channel(endpoint.address, options=_OPTIONS)


class Calls:
    """The session of one client with one process. Safe to use from several threads.

    With ``patience`` the process is watched while a call is waited for: one that has not answered at all for about
    twice as many seconds fails the call with TransportError, and further calls sooner, until it answers again.
    """

    def __init__(self, endpoint: Endpoint, client_name: str, patience: float | None = None) -> None:
        """Raises DeadObjectError where nobody serves at the endpoint."""
        self.endpoint = endpoint
        self._patience = patience
        self._watch = Watch(endpoint, client_name, patience) if patience is not None else None
        self._late: set[object] = set()  # releases that nobody waits for any more
        self._link = Link(endpoint.link, client_name, *([] if patience is None else [2 * patience]))
        self._channels: weakref.WeakSet[Channel] = weakref.WeakSet()
        self.rpc = open_rpc(endpoint)

    @property
    def place(self) -> str:
        """The process, as messages name it."""
        return str(self.endpoint.directory)

    @property
    def responds(self) -> bool:
        """Whether the process answers; one that is not watched counts as if it did."""
        return self._watch is None or self._watch.answers()

    def call(self, method: grpc.UnaryUnaryMultiCallable[Any, T], request: Any, timeout: float | None = None) -> T:
        """A unary call of this session.

        Raises HalError where the process answered with one, DeadObjectError where it or the session is gone, else
        TransportError; that is also for what takes longer than ``timeout`` seconds.
        """
        try:
            if self._watch is None:
                return method(request, metadata=self._link.metadata, timeout=timeout)
            self._require_answers()
            future = method.future(request, metadata=self._link.metadata, timeout=timeout or _WATCHED_SECONDS)
            with self._watch.over(future):
                return future.result()
        except grpc.FutureCancelledError as error:
            raise self._failure(grpc.RpcError("the call was given up")) from error
        except (grpc.RpcError, ValueError) as error:
            raise self._failure(error) from error

    def stream(self, method: Callable[..., _Answers[T]], request: Any) -> Generator[T]:
        """A streaming call of this session, which ends with the generator. Raises as ``call``."""
        try:
            self._require_answers()
            answers = method(request, metadata=self._link.metadata)
            try:
                with self._watch.over(answers) if self._watch is not None else contextlib.nullcontext():
                    yield from answers
            finally:
                answers.cancel()
        except (grpc.RpcError, ValueError) as error:
            raise self._failure(error) from error

    def release(self, method: grpc.UnaryUnaryMultiCallable[Any, Any], request: Any) -> None:
        """Give up an object over there. A process that is gone has released it already.

        One that is watched and does not answer is not waited for: it hears of it when it goes on.
        """
        if self.hung_up:  # gRPC would take the call to a process that has taken its place
            return
        if self._patience is None:
            with contextlib.suppress(NnhalError):
                self.call(method, request)
            return
        with contextlib.suppress(grpc.RpcError, grpc.FutureCancelledError, ValueError):
            future = method.future(request, metadata=self._link.metadata)
            try:
                future.result(0 if self._late else self._patience)
            except grpc.FutureTimeoutError:
                self._late.add(future)  # a call that nobody holds is cancelled
                future.add_done_callback(self._late.discard)

    def issue(self, descriptor: Descriptor) -> int:
        """The id of a descriptor in this session. Raises TransportError."""
        self._require_answers()
        return self._link.issue(descriptor)

    def take(self, number: int) -> Descriptor:
        """A descriptor that a call has named. Raises GENERAL_FAILURE where there is none, and TransportError."""
        try:
            return self._link.take(number)
        except HalError as error:
            general_failure(f"{self.place} answered with descriptor {number}, which it does not have: {error.message}")

    def take_channel(self, number: int) -> Channel:
        """A channel that a call has named. Raises as ``take``."""
        descriptor = self.take(number)
        if not stat.S_ISSOCK(os.fstat(descriptor.fileno()).st_mode):
            general_failure(f"{self.place} answered with descriptor {number} for a channel, expected a socket")
        channel = channel_from(descriptor)
        self._channels.add(channel)
        return channel

    @property
    def link_bytes(self) -> int:
        """Bytes that went over the link, both ways."""
        return self._link.socket_bytes

    @property
    def hung_up(self) -> bool:
        """Whether the process on the other side has ended the session, or is gone."""
        return self._link.hung_up

    @property
    def peer_pid(self) -> int:
        """The process on the other side."""
        return self._link.peer_pid

    def close(self) -> None:
        """End the session, and every channel that belongs to it."""
        for channel in list(self._channels):
            channel.close()
        self._link.close()
        self.rpc.close()

    def _require_answers(self) -> None:
        """Do not have a process that was silent waited for again. Raises TransportError."""
        if self._watch is not None and self._watch.silent and not self.hung_up and not self._watch.answers():
            raise self._silence()

    def _silence(self) -> TransportError:
        return TransportError(f"{self.place} does not answer, though it has not ended; it may have been stopped")

    def _failure(self, error: grpc.RpcError | ValueError) -> NnhalError:
        if isinstance(error, ValueError):  # what gRPC raises on a channel that has been closed
            return DeadObjectError(f"{self.place}: the session has been closed")
        failure = error_from_rpc(error, self.place)
        if self.hung_up and not isinstance(failure, DeadObjectError):
            # gRPC has connected anew: whoever answers knows nothing of this session.
            return DeadObjectError(f"{self.place}: the session has ended: {failure}")
        if self._watch is not None and self._watch.silent and not isinstance(failure, HalError | DeadObjectError):
            return self._silence()
        return failure
