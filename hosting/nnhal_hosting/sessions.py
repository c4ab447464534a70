"""Objects that a link's session owns in a serving process: objects by handle, and channels."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.link import SESSION_METADATA, Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.link.numbers import CallNumbers
from nnhal.link.tenants import ON_BEHALF_METADATA, tenant_from_wire
from nnhal.shares import Tenant, act_for
from nnhal.types import ErrorStatus
from nnhal_hosting.link_server import Session
from nnhal_hosting.logs import get_logger
from nnhal_hosting.polling import Pace, Work

_log = get_logger(__name__)
T = TypeVar("T")
_handles = itertools.count(1)


class Ownership:
    """The objects and channels of one session.

    A handle is greater than 0, is valid in this session only, and is never used twice in a process.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.descriptors = session.descriptors
        self._poller = session.poller
        self._lock = threading.Lock()
        self._objects: dict[int, object] | None = {}
        self._owned_for: dict[int, Tenant] = {}
        self._channels: set[Channel] = set()
        session.on_close(self._close)

    @property
    def is_over(self) -> bool:
        return self._objects is None

    def add(self, item: object) -> int:
        """Own an object and return its handle.

        Raises DEVICE_UNAVAILABLE if the session has ended, RESOURCE_EXHAUSTED_TRANSIENT if there is no room.
        """
        client = self.session.shares.objects.take(1)
        with self._lock:
            if self._objects is not None:
                handle = next(_handles)
                self._objects[handle], self._owned_for[handle] = item, client
                return handle
        self.session.shares.objects.give_back(client, 1)
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")

    def get(self, handle: int, kind: type[T], name: str) -> T:
        """Return an object of a kind; messages call it ``name``. Raises INVALID_ARGUMENT if there is no such object."""
        item = (self._objects or {}).get(handle)
        if not isinstance(item, kind):
            invalid_argument(f"{name} {handle} does not exist in this session, or was released")
        return item

    def release(self, handle: int) -> object | None:
        """Disown an object and return it; whatever still uses it keeps it alive. An unknown handle is ignored.

        Descriptors that were offered in its name, and not taken, are closed.
        """
        self.descriptors.withdraw(handle)
        with self._lock:
            if handle in self._owned_for:
                self.session.shares.objects.give_back(self._owned_for.pop(handle), 1)
            return None if self._objects is None else self._objects.pop(handle, None)

    def all(self, kind: type[T]) -> list[T]:
        return list(self.by_handle(kind).values())

    def by_handle(self, kind: type[T]) -> dict[int, T]:
        """Return all objects of a kind by their handles, the oldest first."""
        with self._lock:
            return {handle: item for handle, item in (self._objects or {}).items() if isinstance(item, kind)}

    def find(self, handle: int, kind: type[T]) -> T | None:
        with self._lock:
            item = (self._objects or {}).get(handle)
        return item if isinstance(item, kind) else None

    def make_channel(self) -> tuple[Channel, Descriptor]:
        """Create a channel and the end of it that is for the client. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        try:
            channel, theirs = channel_pair()
        except OSError as error:
            raise host_failure("no channel can be made", error) from error
        self.session.shares.descriptors.charge_for(channel)  # the other end counts as an offer
        self.session.ends.add(channel, theirs)
        return channel, theirs

    def _watch(self, channel: Channel) -> None:
        """Shut a channel down when the session ends, or now if it has ended."""
        with self._lock:
            if self._objects is not None:
                self._channels.add(channel)
                return
        channel.shutdown()

    def _forget(self, channel: Channel) -> None:
        with self._lock:
            self._channels.discard(channel)

    def serve(
        self,
        channel: Channel,
        name: str,
        answer: Callable[[bytes], bytes | None],
        refusal: Callable[[str], bytes],
        ended: Callable[[], object] = lambda: None,
        at_once: Callable[[], bool] = lambda: False,
    ) -> None:
        """Answer the messages of a channel, one after the other, until either side closes it; then call ``ended``.

        A message that is too long or empty, or for which ``answer`` raises ProtocolError, is answered with a
        ``refusal``, and ends the channel. One for which it returns None gets no answer. ``at_once`` says whether
        ``answer`` would wait for nothing: then, if it is brief, other channels wait for it. ``name`` is for logs.
        Raises RESOURCE_EXHAUSTED_TRANSIENT.
        """
        answers = _Answers(channel, answer, refusal, at_once)
        self.serve_exchanges(channel, name, answers.receive, ended, in_turn=True)

    def serve_launches(
        self,
        channel: Channel,
        name: str,
        answer: Callable[[bytes, list[Descriptor]], tuple[bytes, list[Descriptor], Work | None]],
        refusal: Callable[[str], bytes],
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """Like ``serve``, but calls and answers carry descriptors, and an answer may leave work to do.

        Other calls on the channel are answered while the work is done.
        """

        numbers = CallNumbers()

        def exchange() -> Work | None:
            number = b""
            try:
                message, received = channel.receive_with_descriptors()
                message, number = numbers.split(message)
                reply, descriptors, work = answer(message, received)
            except ProtocolError as error:
                say_last_words(channel, error, refusal, number)
                raise
            finally:
                received = []  # what keeps this frame must not keep them open
            try:
                channel.send(reply + number, descriptors)
            except ChannelClosedError:
                if work is None:
                    raise
            return work

        self.serve_exchanges(channel, name, exchange, ended)

    def serve_exchanges(
        self,
        channel: Channel,
        name: str,
        exchange: Callable[[], Work | None],
        ended: Callable[[], object] = lambda: None,
        in_turn: bool = False,
    ) -> None:
        """Call ``exchange`` whenever there is a message to receive on a channel, and do the work that it returns.

        Exchanges go on while work is done, unless they are ``in_turn``. The channel ends when either side closes it, or
        with what ``exchange`` or the work raises; then ``ended`` is called. Sending on the channel does not block.
        ``name`` is for logs. Raises RESOURCE_EXHAUSTED_TRANSIENT if the process has no descriptor or thread for it.
        """

        def end(error: BaseException) -> None:
            if isinstance(error, ProtocolError):
                _log.warning(f"{name} ended: protocol error", client=self.session.title, reason=str(error))
            elif not isinstance(error, ChannelClosedError):
                _log.error(f"{name} ended: unexpected exception", client=self.session.title, exc_info=error)
            self._forget(channel)
            try:
                ended()
            finally:
                channel.close()

        self._watch(channel)
        try:
            self._poller.add(channel, exchange, end, in_turn)
        except (OSError, RuntimeError) as error:
            self._forget(channel)
            channel.close()
            raise host_failure(f"{name} cannot be served", error) from error

    def _close(self) -> None:
        # Channels first: a client that waits on one must see it close, not be told that an object is unknown.
        self._shut_channels()
        with self._lock:
            self._objects = None
            for client in self._owned_for.values():
                self.session.shares.objects.give_back(client, 1)
            self._owned_for.clear()
        self._shut_channels()

    def _shut_channels(self) -> None:
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.shutdown()


def say_last_words(
    channel: Channel, error: ProtocolError, refusal: Callable[[str], bytes], number: bytes = b""
) -> None:
    """Tell the other side why its channel is about to end. ``number`` is that of its call, if there is one."""
    with contextlib.suppress(ChannelClosedError):
        channel.send(refusal(f"{error}; the channel ends with this answer") + number)


class _Answers:
    """Receives the calls of a channel; each is work, which answers it. One call at a time."""

    def __init__(
        self,
        channel: Channel,
        answer: Callable[[bytes], bytes | None],
        refusal: Callable[[str], bytes],
        at_once: Callable[[], bool],
    ) -> None:
        self._channel = channel
        self._answer = answer
        self._refusal = refusal
        self._at_once = at_once
        self._pace = Pace()
        self._message = self._number = b""
        self._numbers = CallNumbers()

    def receive(self) -> Work:
        try:
            self._message, self._number = self._numbers.split(self._channel.receive())
        except ProtocolError as error:
            say_last_words(self._channel, error, self._refusal)
            raise
        return self

    @property
    def is_brief(self) -> bool:
        """Return whether answers were brief lately, and this one would begin at once."""
        return self._pace.is_brief and self._at_once()

    def run(self) -> None:
        """Answer the call. Raises what ends the channel."""
        began_ns = time.perf_counter_ns()
        try:
            answer = self._answer(self._message)
        except ProtocolError as error:
            say_last_words(self._channel, error, self._refusal, self._number)
            raise
        self._pace.add(time.perf_counter_ns() - began_ns)
        if answer is not None:
            self._channel.send(answer + self._number)


O = TypeVar("O", bound=Ownership, covariant=True)  # noqa: E741 - an Ownership


class Sessions(Generic[O]):
    """The open sessions of a process, by token. The link server calls ``opened``."""

    def __init__(self, factory: Callable[[Session], O]) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._sessions: dict[str, O] = {}

    def opened(self, session: Session) -> None:
        """Register a session until it closes."""
        with self._lock:
            self._sessions[session.token] = self._factory(session)
        session.on_close(lambda: self._closed(session.token))

    def of(self, context: grpc.ServicerContext) -> O:
        """Return the session of a call, by the call's metadata. The thread acts for its client from now on.

        Raises INVALID_ARGUMENT if it names no open session.
        """
        metadata: dict[str, Any] = dict(context.invocation_metadata())
        with self._lock:
            owner = self._sessions.get(str(metadata.get(SESSION_METADATA, "")))
        if owner is None:
            invalid_argument(f"the call needs the token of an open link as metadata {SESSION_METADATA!r}")
        act_for(tenant_from_wire(metadata.get(ON_BEHALF_METADATA)).within(owner.session.tenant))
        return owner

    def all(self) -> list[O]:
        with self._lock:
            return list(self._sessions.values())

    def find(self, handle: int, kind: type[T], name: str) -> T:
        """Return an object of any session, which messages call ``name``: a handle is never used twice.

        Raises INVALID_ARGUMENT if no session has it.
        """
        for owner in self.all():
            found = owner.find(handle, kind)
            if found is not None:
                return found
        invalid_argument(f"{name} {handle} exists in no session, or was released")

    def _closed(self, token: str) -> None:
        with self._lock:
            self._sessions.pop(token, None)
