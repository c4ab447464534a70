"""What the session of a link owns in a serving process: objects by handle, and channels."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.link import SESSION_METADATA, Channel, ChannelClosedError, ProtocolError
from nnhal.types import ErrorStatus
from nnhal_hosting.link_server import Session
from nnhal_hosting.logs import get_logger
from nnhal_hosting.shifts import Shifts, Work

_log = get_logger(__name__)
T = TypeVar("T")
_handles = itertools.count(1)
MAX_OBJECTS = 4096
"""Objects that one session may own at a time."""


class Ownership:
    """The objects of one session. Handles are above 0, valid in this session only, never used twice in a process."""

    def __init__(self, session: Session) -> None:
        self.descriptors = session.descriptors
        self.pid = session.pid
        self._lock = threading.Lock()
        self._objects: dict[int, object] | None = {}
        self._channels: set[Channel] = set()
        session.on_close(self._close)

    def add(self, item: object) -> int:
        """Own an object and return its handle. Raises DEVICE_UNAVAILABLE once the session is over."""
        with self._lock:
            if self._objects is None:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
            if len(self._objects) >= MAX_OBJECTS:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"the session owns {len(self._objects)} objects, at most {MAX_OBJECTS} are allowed",
                )
            handle = next(_handles)
            self._objects[handle] = item
            return handle

    def get(self, handle: int, kind: type[T], name: str) -> T:
        """An object of a kind, ``name`` in messages. Raises INVALID_ARGUMENT."""
        item = (self._objects or {}).get(handle)
        if not isinstance(item, kind):
            invalid_argument(f"{name} {handle} does not exist in this session, or was released")
        return item

    def release(self, handle: int) -> object | None:
        """Give up an object and return it; others that need it keep it alive. Unknown handles do no harm."""
        with self._lock:
            return None if self._objects is None else self._objects.pop(handle, None)

    def all(self, kind: type[T]) -> list[T]:
        """The objects of a kind."""
        with self._lock:
            return [item for item in (self._objects or {}).values() if isinstance(item, kind)]

    def _watch(self, channel: Channel) -> None:
        """Have a channel shut down when the session ends."""
        with self._lock:
            if self._objects is not None:
                self._channels.add(channel)
                return
        channel.shutdown()

    def _forget(self, channel: Channel) -> None:
        """The channel has ended."""
        with self._lock:
            self._channels.discard(channel)

    def serve(
        self,
        channel: Channel,
        name: str,
        answer: Callable[[bytes], bytes],
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """Answer what comes on a channel, in a thread of its own, until either side closes it; then call ``ended``.

        ``answer`` raises ProtocolError for what ends the channel. ``name`` is for the thread and for logs.
        """

        def exchange() -> None:
            channel.send(answer(channel.receive()))

        self._serve(channel, name, exchange, ended)

    def serve_launches(
        self,
        channel: Channel,
        name: str,
        answer: Callable[[bytes, list[Descriptor]], tuple[bytes, list[Descriptor], Work | None]],
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """Like ``serve``, with descriptors that travel with calls and answers, and with work that answers leave to do.

        While work is done, other calls on the channel are answered.
        """

        def exchange() -> Work | None:
            reply, descriptors, work = answer(*channel.receive_with_descriptors())
            try:
                channel.send(reply, descriptors)
            except ChannelClosedError:
                if work is None:
                    raise
            return work

        self._serve(channel, name, exchange, ended)

    def _serve(
        self, channel: Channel, name: str, exchange: Callable[[], Work | None], ended: Callable[[], object]
    ) -> None:
        def end(error: BaseException) -> None:
            if isinstance(error, ProtocolError):
                _log.warning(f"{name} ended: garbage", pid=self.pid, reason=str(error))
            elif not isinstance(error, ChannelClosedError):
                _log.error(f"{name} ended: a defect", pid=self.pid, exc_info=error)
            self._forget(channel)
            ended()
            channel.close()

        self._watch(channel)
        Shifts(f"{name}-{self.pid}", exchange, end).start()

    def _close(self) -> None:
        # Channels first: who waits on one must see it close, and not be told that an object is unknown.
        self._shut_channels()
        with self._lock:
            self._objects = None
        self._shut_channels()

    def _shut_channels(self) -> None:
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.shutdown()


O = TypeVar("O", bound=Ownership)  # noqa: E741 - an Ownership


class Sessions(Generic[O]):
    """The open sessions of a process, by token. ``opened`` is for the link server to call."""

    def __init__(self, factory: Callable[[Session], O]) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._sessions: dict[str, O] = {}

    def opened(self, session: Session) -> None:
        """Know a session until it closes."""
        with self._lock:
            self._sessions[session.token] = self._factory(session)
        session.on_close(lambda: self._closed(session.token))

    def of(self, context: grpc.ServicerContext) -> O:
        """Whose call this is, by its metadata. Raises INVALID_ARGUMENT without an open session."""
        metadata: dict[str, Any] = dict(context.invocation_metadata())
        with self._lock:
            owner = self._sessions.get(str(metadata.get(SESSION_METADATA, "")))
        if owner is None:
            invalid_argument(f"the call needs the token of an open link as metadata {SESSION_METADATA!r}")
        return owner

    def all(self) -> list[O]:
        """Every open session."""
        with self._lock:
            return list(self._sessions.values())

    def _closed(self, token: str) -> None:
        with self._lock:
            self._sessions.pop(token, None)
