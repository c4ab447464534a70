"""Calls to a process over one gRPC channel and one link, with the contract's errors."""

from __future__ import annotations

import contextlib
import socket
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import grpc
import grpc.experimental

from nnhal.admin import ADMIN_KEY_METADATA
from nnhal.codec import error_from_rpc
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError, general_failure
from nnhal.link import CallChannel, Channel, Link
from nnhal.link.call_channel import call_channel_from
from nnhal.link.channel import is_channel
from nnhal.link.client import ANSWER_SECONDS
from nnhal.link.tenants import ON_BEHALF_METADATA, tenant_to_wire
from nnhal.remote.alarms import ALARMS
from nnhal.remote.rpc_channel import RpcChannel, name_of
from nnhal.remote.watch import Cancellable, StalledError, Watch
from nnhal.shares import tenant

T = TypeVar("T")
S = TypeVar("S", covariant=True)
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # With a shared pool a new session would wait if an old one has just failed to connect.
    ("grpc.use_local_subchannel_pool", 1),
    # Who waits for a stream reads it. Otherwise gRPC starts a thread for it, which may take longer than the call.
    (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),
)
_END_SECONDS = 1.0
"""The time that a stream may take to end when nothing of it is wanted any more."""
_WATCHED_SECONDS = 60.0
"""The longest time that a unary call may take if the process is watched."""


class _Answers(Protocol[S]):
    """The object that gRPC returns for a streaming call."""

    def __iter__(self) -> Iterator[S]: ...

    def cancel(self) -> object: ...


def _finish(answers: _Answers[object]) -> None:
    """Read a stream to its end, without which gRPC keeps its connection. One that does not end is cancelled."""
    with ALARMS.set(_END_SECONDS, answers.cancel), contextlib.suppress(grpc.RpcError):
        for _ in answers:
            pass


def open_rpc(endpoint: Endpoint) -> grpc.Channel:
    """Open a gRPC channel to a process. It connects with the first call."""
    return RpcChannel(grpc.insecure_channel(endpoint.address, options=_OPTIONS))


class Calls:
    """The session of one client with one process. Safe to use from several threads.

    With ``patience``, in seconds, the process is watched during each call. If it is silent for about twice as long, the
    call fails with TransportError. Further calls fail sooner, until the process answers again. A call fails too with
    which the process makes no progress for ``stall_seconds``, if these are not 0.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_name: str,
        patience: float | None = None,
        admin_key: str = "",
        stall_seconds: float = 0.0,
    ) -> None:
        """Open a session. That of an operator, and each of its calls, carries the ``admin_key`` of the process.

        Raises DeadObjectError if no process serves at the endpoint, TransportError if it is another user's.
        """
        self.endpoint = endpoint
        try:
            endpoint = endpoint.trusted()
        except (OSError, ValueError) as error:
            raise TransportError(str(error)) from error
        self._patience = patience
        self._watch = Watch(endpoint, client_name, patience, stall_seconds) if patience is not None else None
        self._late: set[object] = set()  # releases that are not waited for any more
        seconds = ANSWER_SECONDS if patience is None else 2 * patience
        self._link = Link(endpoint.link, client_name, seconds, admin_key)
        if self._watch is not None:
            self._watch.pid = self._link.peer_pid
        self._metadata = (*self._link.metadata, *([(ADMIN_KEY_METADATA, admin_key)] if admin_key else []))
        self._channels: weakref.WeakSet[Channel] = weakref.WeakSet()
        self._ends: weakref.WeakSet[Channel | Descriptor] = weakref.WeakSet()
        self.is_given_up = False
        """True if ``give_up`` was called."""
        self._living: set[tuple[str, int]] = set()
        """The objects of the session that were made and not released, by kind and handle."""
        self.streams = 0
        """Streaming calls under way, which are preparations."""
        self.rpc = open_rpc(endpoint)

    @property
    def place(self) -> str:
        """The name of the process in messages."""
        return str(self.endpoint.directory)

    def may_stall(self) -> None:
        """Expect no progress of the process: others work for it."""
        if self._watch is not None:
            self._watch.stall_seconds = 0.0

    @property
    def responds(self) -> bool:
        """Return whether the process answers. A process that is not watched counts as answering."""
        return self._watch is None or self._watch.answers()

    @property
    def is_silent(self) -> bool:
        """Return whether the process did not answer when it was last asked. Asks nothing."""
        return self._watch is not None and self._watch.silent

    def call(self, method: grpc.UnaryUnaryMultiCallable[Any, T], request: Any, timeout: float | None = None) -> T:
        """Make a unary call of this session.

        Raises HalError if the process answered with one, DeadObjectError if the process or the session is gone,
        MissingMethodError if it does not serve the method, and TransportError in all other cases, also if the call
        takes longer than ``timeout`` seconds.
        """
        seconds = timeout or (None if self._watch is None else _WATCHED_SECONDS)
        return self._call(method, request, seconds, may_stall=False)

    def execute(
        self,
        method: grpc.UnaryUnaryMultiCallable[Any, T],
        request: Any,
        begun: Callable[[Cancellable], object] = lambda _: None,
    ) -> T:
        """Make a unary call that may take as long as it likes, while the process answers. Raises as ``call``.

        If the process is watched, ``begun`` is called, before the call is waited for, with what cancels it.
        """
        return self._call(method, request, None, may_stall=True, begun=begun)

    def _call(
        self,
        method: grpc.UnaryUnaryMultiCallable[Any, T],
        request: Any,
        timeout: float | None,
        may_stall: bool,
        begun: Callable[[Cancellable], object] = lambda _: None,
    ) -> T:
        try:
            if self._watch is None:
                return method(request, metadata=self._metadata_now(), timeout=timeout)
            self._require_answers()
            future = method.future(request, metadata=self._metadata_now(), timeout=timeout)
            begun(future)
            return self._watch.result_of(future, may_stall)
        except StalledError as error:
            raise StalledError(f"{self.place}, {name_of(method)}: {error}") from None
        except grpc.FutureCancelledError as error:
            raise self._failure(grpc.RpcError("the call was cancelled"), method) from error
        except (grpc.RpcError, ValueError) as error:
            # The future is the error: with its frames, it would hold the caller's until the next garbage collection.
            raise self._failure(error, method) from error.with_traceback(None)

    def stream(
        self, method: Callable[..., _Answers[T]], request: Any, meanwhile: Callable[[], object] = lambda: None
    ) -> Generator[T]:
        """Make a streaming call of this session, which ends with the generator. Raises the same errors as ``call``.

        ``meanwhile`` is done when the request is on its way.
        """
        try:
            self._require_answers()
            answers = method(request, metadata=self._metadata_now())
            self.streams += 1
            try:
                with self._watch.over(answers) if self._watch is not None else contextlib.nullcontext():
                    meanwhile()
                    yield from answers
            finally:
                self.streams -= 1
                _finish(answers)
        except StalledError as error:
            raise StalledError(f"{self.place}, {name_of(method)}: {error}") from None
        except (grpc.RpcError, ValueError) as error:
            raise self._failure(error, method) from error

    def new_object(self, kind: str, handle: int) -> int:
        """Note an object that the process says it has made, and return its handle.

        Raises GENERAL_FAILURE unless that is above 0, and no other living object's of the kind.
        """
        key = kind, handle
        if handle <= 0 or key in self._living:
            expected = "a handle above 0" if handle <= 0 else "another one, since that is in use"
            general_failure(f"{self.place} answered with {kind} {handle}, expected {expected}")
        self._living.add(key)
        return handle

    def release(self, method: grpc.UnaryUnaryMultiCallable[Any, Any], request: Any, *released: tuple[str, int]) -> None:
        """Release an object in the process, of which ``new_object`` has returned what is ``released``. A process that
        is gone has released it already.

        A watched process that does not answer is not waited for: it receives the call when it continues.
        """
        self._living.difference_update(released)
        if self.hung_up:  # gRPC would take the call to a process that has taken its place
            return
        if self._patience is None:
            with contextlib.suppress(NnhalError):
                self.call(method, request)
            return
        with contextlib.suppress(grpc.RpcError, grpc.FutureCancelledError, ValueError):
            future = method.future(request, metadata=self._metadata)
            try:
                future.result(0 if self._late else self._patience)
            except grpc.FutureTimeoutError:
                self._late.add(future)  # gRPC cancels a call without references
                future.add_done_callback(self._late.discard)

    def issue(self, descriptor: Descriptor) -> int:
        """Return the id of a descriptor in this session. Raises TransportError."""
        self._require_answers()
        return self._link.issue(descriptor)

    def hand_over(self, descriptors: Sequence[Descriptor]) -> list[int]:
        """Hand descriptors over for good, to the call that will name their ids. Raises HalError and TransportError."""
        self._require_answers()
        return self._link.put(descriptors)

    def take(self, number: int) -> Descriptor:
        """Fetch a descriptor that a call has named. Raises GENERAL_FAILURE if it does not exist, and TransportError."""
        try:
            return self._link.take(number)
        except HalError as error:
            general_failure(f"{self.place} answered with descriptor {number}, which it does not have: {error.message}")

    def take_end(self, number: int) -> Descriptor:
        """Fetch the end of a channel that a call has named. Raises as ``take``, also if it is no such socket."""
        descriptor = self.take(number)
        if not is_channel(descriptor):
            general_failure(
                f"{self.place} answered with descriptor {number} for a channel, expected a unix socket of type "
                "SOCK_SEQPACKET"
            )
        return descriptor

    def take_channel(self, number: int, is_numbered: bool | None = None) -> CallChannel:
        """Fetch a channel that a call has named. Raises the same errors as ``take_end``.

        Its answers are numbered as the session has agreed, unless ``is_numbered`` says it otherwise.
        """
        numbered = self.numbers_answers if is_numbered is None else is_numbered
        channel = call_channel_from(self.take_end(number), numbered)
        self._channels.add(channel)
        return channel

    @property
    def numbers_answers(self) -> bool:
        """Return whether answers on the session's channels carry the numbers of their calls."""
        return self._link.numbers_answers

    @property
    def has_lengths_by_run(self) -> bool:
        return self._link.has_lengths_by_run

    def end_with_session(self, end: Channel | Descriptor) -> None:
        """Shut down a socket, of a channel or a fence, when the session is given up, so that nobody waits at it."""
        self._ends.add(end)

    @property
    def link_bytes(self) -> int:
        return self._link.socket_bytes

    @property
    def hung_up(self) -> bool:
        """Return whether the process has ended the session or is gone, or this side has given the session up."""
        return self.is_given_up or self._link.hung_up

    @property
    def is_asleep(self) -> bool:
        """Return whether the session is given up, and the process may still be at work for it.

        A process that continues ends the session when all its executions have ended, and closes its end of the link.
        """
        return self.is_given_up and not self._link.hung_up

    def give_up(self) -> None:
        """Treat the process as dead though it may only sleep. Whatever waits for it fails at once, in any thread."""
        self.is_given_up = True
        self._link.leave()
        for end in [*self._channels, *self._ends]:
            with contextlib.suppress(OSError, ValueError):  # it is closed
                view = socket.socket(fileno=end.fileno())
                try:
                    view.shutdown(socket.SHUT_RDWR)
                finally:
                    view.detach()
        self.rpc.close()

    @property
    def peer_pid(self) -> int:
        return self._link.peer_pid

    def close(self) -> None:
        """End the session and close every channel that belongs to it."""
        for channel in list(self._channels):
            channel.close()
        if not self.is_given_up:  # the link tells when the process has ended the session
            self._link.close()
        self.rpc.close()

    def _metadata_now(self) -> tuple[tuple[str, str | bytes], ...]:
        """The metadata of a call that makes something, with the client in whose name this thread acts."""
        client = tenant_to_wire(tenant())
        return self._metadata if client is None else (*self._metadata, (ON_BEHALF_METADATA, client.SerializeToString()))

    def _require_answers(self) -> None:
        """Refuse the call if the process was silent and still is. Raises TransportError."""
        if self._watch is not None and self._watch.silent and not self.hung_up and not self._watch.answers():
            raise self._silence()

    def _silence(self) -> TransportError:
        return TransportError(f"{self.place} does not answer, though it has not ended; it may have been stopped")

    def _failure(self, error: grpc.RpcError | ValueError, method: object) -> NnhalError:
        if isinstance(error, ValueError):  # gRPC raises it for a closed channel
            return DeadObjectError(f"{self.place}: the session has been closed")
        failure = error_from_rpc(error, self.place, name_of(method))
        if self.hung_up and not isinstance(failure, DeadObjectError):
            # gRPC has connected again, and the process that answers does not know this session.
            return DeadObjectError(f"{self.place}: the session has ended: {failure}")
        if self._watch is not None and self._watch.silent and not isinstance(failure, HalError | DeadObjectError):
            return self._silence()
        return failure
