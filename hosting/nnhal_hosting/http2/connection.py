"""A connection of HTTP/2: ngh2's between the event loop and what serves streams."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import ngh2

from nnhal_hosting.access import peer_name
from nnhal_hosting.connection_limits import ConnectionLimits, StallTimer
from nnhal_hosting.http2.waiting import WaitingStreams
from nnhal_hosting.shared_numbers import SharedNumber

Header: TypeAlias = tuple[bytes, bytes]
_STREAM_WINDOW = 1 << 16
"""Bytes that a client may send of a request before anybody has asked for them."""
_WIDE_WINDOW = 1 << 20
"""The same, once more of a request has been asked for: a smaller window would have the client wait for the server."""
_MOST_WINDOW = (1 << 31) - 1
"""What HTTP/2 allows. A connection needs no bound of its own: its streams have theirs."""
_FRAME_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18
"""Bytes of an answer that are handed to ngh2 at a time, which copies them."""
_MOST_WRITTEN = 1 << 20
"""Bytes that are handed to the transport at a time. It asks for a pause when it has kept as many."""
_OTHER_FLOODS = 100
"""Acknowledgements of a flood of PING or SETTINGS that are kept for a client that does not read."""

_WHILE_IT_LASTS = suppress(ngh2.NGH2Error)
"""For a stream that its client may have reset, or a connection that may have ended, which is noted next."""


class StreamUser(Protocol):
    """Serves a stream. The connection calls it in the loop, and what it raises ends the connection.

    What has come with the head is in ``Stream.first`` when the stream is opened; ``receive`` takes what follows.
    """

    def receive(self, data: bytes, is_last: bool) -> None:
        """Take what has come of the request, and no more than what the window lets in."""

    def give_up(self, why: str) -> None:
        """End the stream, which waits for its client."""

    def close(self) -> None:
        """Note that the stream is over: the client has its answer, has reset it, or has left."""


OpenStream = Callable[["Stream"], None]
"""Sets the user of a new stream, or answers it at once. Of most requests all has come by then."""


@dataclass(slots=True)
class PeerState:
    """A client at the other end of a connection."""

    name: str
    """Its address, as gRPC writes it."""
    user_is_admitted: bool = False
    """True if its user has been admitted: whoever has opened the connection stays the same."""
    kept: Any = None
    """Kept by what serves streams."""


class Stream:
    """A request and its answer. Sending to one that is over does nothing."""

    __slots__ = (
        "_connection", "_drained", "_end", "_is_wide", "_left", "_unsent", "_waits", "first", "headers", "held",
        "is_open", "is_whole", "number", "peer", "since", "user",
    )  # fmt: skip

    def __init__(self, connection: Http2Connection, number: int, headers: Sequence[Header], is_whole: bool) -> None:
        self._connection = connection
        self.peer = connection.peer
        """The client."""
        self.number = number
        self.headers = headers
        self.first = b""
        """What had come of the request when the stream was opened."""
        self.is_whole = is_whole
        """True if the client has sent all of the request."""
        self.is_open = True
        self.user: StreamUser | None = None
        self.since = 0.0
        self.held = 0
        """Bytes of the request that have not been taken."""
        self._is_wide = self._waits = False
        self._left = 0
        """Bytes of the answer that ngh2 held when they were looked at last."""
        self._unsent: deque[memoryview] = deque()
        self._end: Sequence[Header] | None = None
        self._drained: asyncio.Future[None] | None = None

    @property
    def is_sent(self) -> bool:
        """True if all that was added to the answer has been handed to the network."""
        return not self._unsent and not self._queued

    @property
    def is_held_up(self) -> bool:
        """True if nothing can be sent on its connection."""
        return self._connection.is_paused

    @property
    def _queued(self) -> int:
        """The bytes of the answer that ngh2 has."""
        try:
            return self._connection.http2.queued_body_size(self.number)
        except ngh2.NGH2Error:
            return 0

    def wait_for_client(self) -> None:
        """Note that the stream waits for its client."""
        if self.is_open:
            self._waits = True
            self._connection.waiting.add(self)

    def go_on(self) -> None:
        """Note that it does not wait any more."""
        if self._waits:
            self._waits = False
            self._connection.waiting.discard(self)

    def give_up(self, why: str) -> None:
        if self._end is None and self.user is not None:
            self.user.give_up(why)
        else:  # an answer that the client does not take
            self.reset(ngh2.ErrorCode.ENHANCE_YOUR_CALM)

    def widen(self) -> None:
        """Let the client send as many bytes before the first are taken as make a large request fast."""
        if self.is_open and not self.is_whole and not self._is_wide:
            self._is_wide = True
            self._connection.set_window(self, _WIDE_WINDOW)

    def take(self, size: int) -> None:
        """Let the client send others in place of so many bytes."""
        self.held -= size
        if self.is_open:
            self._connection.acknowledge(self, size)

    def answer(self, headers: Iterable[Header], data: bytes, trailers: Sequence[Header]) -> None:
        """Send a whole answer, as far as the client and the network take it; the rest follows when they do."""
        if not self.is_open:
            return
        http2, number = self._connection.http2, self.number
        try:
            http2.send_response(number, headers)
            if len(data) > _PIECE_BYTES or self._unsent:
                self.send(data)
                self.end(trailers)
            else:
                self._end = trailers
                http2.send_data(number, data)
                http2.send_trailers(number, trailers)
        except ngh2.NGH2Error:
            return  # it has been reset, which is noted next
        if self.is_whole:
            self._connection.flush()
        if self.is_open:  # not all of it has been sent
            self.flush()

    def respond(self, headers: Iterable[Header], is_last: bool = False) -> None:
        """Begin the answer. It is sent with what follows, or by ``flush``."""
        if not self.is_open:
            return
        if is_last:
            self._end = ()
        with _WHILE_IT_LASTS:
            self._connection.http2.send_response(self.number, headers, end_stream=is_last)

    def send(self, data: bytes) -> None:
        """Add bytes to the answer."""
        if not self.is_open:
            return
        if len(data) <= _PIECE_BYTES and not self._unsent:
            self._hand_over(data)
        else:
            whole = memoryview(data)
            self._unsent.extend(whole[at : at + _PIECE_BYTES] for at in range(0, len(whole), _PIECE_BYTES))
            self._connection.sending[self.number] = self

    def end(self, trailers: Sequence[Header]) -> None:
        """End the answer."""
        if self.is_open:
            self._end = trailers
            if not self._unsent:
                self._hand_over_end()

    def flush(self) -> None:
        """Send what the client and the network take of the answer; the rest follows when they do."""
        if not self.is_open:
            return
        connection = self._connection
        if self._end is not None and not self.is_whole:
            connection.ending.append(self)
        connection.flush()
        if self.is_open and (self._end is not None or not self.is_sent):
            connection.sending[self.number] = self
            self.wait_for_client()

    async def drained(self) -> None:
        """Wait until all that was added has been handed to the network, or the stream is over. There is nothing to wait
        for once it is not open.
        """
        if self.is_open and self.number in self._connection.sending:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def reset(self, code: int = ngh2.ErrorCode.CANCEL) -> None:
        """End the stream as it is."""
        if self.is_open:
            with _WHILE_IT_LASTS:
                self._connection.http2.reset_stream(self.number, code)
            self._connection.flush()

    def receive(self, data: bytes, is_last: bool) -> None:
        """The client has sent a part of the request."""
        self.since = self._connection.now
        self.held += len(data)
        self.is_whole = is_last
        if self._end is not None or self.user is None:  # it has been answered
            self.take(len(data))
        else:
            self.user.receive(data, is_last)

    def feed(self) -> bool:
        """Hand more of the answer to ngh2. Return whether it has some that it did not have."""
        connection, left = self._connection, self._queued
        if left != self._left:
            self._left, self.since = left, connection.now
        if not self._unsent:
            if not left and self._end is None:
                del connection.sending[self.number]
                self.go_on()
                self._set_drained()
            return False
        if left >= _PIECE_BYTES:
            return False
        self._hand_over(self._unsent.popleft())
        if not self._unsent and self._end is not None:
            self._hand_over_end()
        return True

    def close(self) -> None:
        """The stream is over."""
        if not self.is_open:
            return
        connection = self._connection
        if self.held:
            connection.acknowledge(self, self.held)
        self.is_open = False
        connection.sending.pop(self.number, None)
        self._unsent.clear()
        if self._waits:
            connection.waiting.discard(self)
        if self._drained is not None:
            self._set_drained()
        user, self.user = self.user, None
        if user is not None:
            user.close()

    def _hand_over(self, data: bytes | memoryview) -> None:
        with _WHILE_IT_LASTS:
            self._connection.http2.send_data(self.number, data)

    def _hand_over_end(self) -> None:
        with _WHILE_IT_LASTS:
            self._connection.http2.send_trailers(self.number, self._end or ())

    def _set_drained(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


class Http2Connection(asyncio.Protocol):
    """A connection. It is closed if its client has sent no preface in time, floods it, or takes nothing it is sent."""

    transport: asyncio.Transport

    def __init__(
        self,
        limits: ConnectionLimits,
        streams: int,
        waiting: WaitingStreams,
        connections: dict[Http2Connection, None],
        by_peer: dict[str, object],
        count: SharedNumber,
        open_stream: OpenStream,
    ) -> None:
        """``streams`` are those that may be open at a time. ``connections`` are those of the server, ``by_peer`` its
        TCP connections by the names of their peers, and ``count`` is how many there are at its address.
        """
        self.http2 = ngh2.Connection(
            ngh2.Role.SERVER,
            ngh2.Configuration(
                auto_window_update=False,
                max_outbound_ack=_OTHER_FLOODS,
                max_inbound_header_list_size=limits.head_bytes,
                max_inbound_header_count=limits.headers,
            ),
        )
        self.loop = asyncio.get_running_loop()
        self.peer = PeerState("")
        self.waiting = waiting
        self.now = 0.0
        self.sending: dict[int, Stream] = {}
        """Streams of which bytes have not been sent yet."""
        self.ending: list[Stream] = []
        """Streams that have been answered before the request was whole: its rest is not wanted."""
        self._limits = limits
        self._most_streams = streams
        self._all = connections
        self._by_peer = by_peer
        self._count = count
        self._open = open_stream
        self._streams: dict[int, Stream] = {}
        self.is_paused = self._is_flushing = self._has_greeted = False

    @property
    def is_idle(self) -> bool:
        return self._has_greeted and not self._streams

    @property
    def waits_for_server(self) -> bool:
        return bool(self._streams)  # each of them is timed on its own

    @property
    def has_streams(self) -> bool:
        return bool(self._streams)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # a stream's; uvloop's is no subclass
        self._count.add(1)
        self._all[self] = None
        self._timer = StallTimer(self, self._limits, self.loop)
        tls = transport.get_extra_info("ssl_object")
        if self._count.total > self._limits.connections or (tls and tls.selected_alpn_protocol() != "h2"):
            self.transport.abort()
            return
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.peer.name = peer_name(address[:2])
            self._by_peer[self.peer.name] = self
        else:
            self.peer.name = "unix:"
        self.transport.set_write_buffer_limits(_MOST_WRITTEN)
        self.http2.initiate_connection(
            {
                ngh2.Setting.MAX_CONCURRENT_STREAMS: self._most_streams,
                ngh2.Setting.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                ngh2.Setting.MAX_FRAME_SIZE: _FRAME_BYTES,
                ngh2.Setting.MAX_HEADER_LIST_SIZE: self._limits.head_bytes,
            }
        )
        self.http2.set_local_window_size(_MOST_WINDOW)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self.now = self.loop.time()
        try:
            self.http2.receive_data(data)
        except ngh2.NGH2Error:  # it breaks the protocol or floods the server
            self.transport.abort()
            return
        self._handle(self.http2.events())
        if self.http2.want_write or self.sending or self.ending or not self.http2.want_read:
            self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._count.add(-1)
        self._all.pop(self, None)
        if self._by_peer.get(self.peer.name) is self:
            del self._by_peer[self.peer.name]
        self._timer.cancel()
        for stream in list(self._streams.values()):
            stream.close()
        self._streams.clear()
        self.ending.clear()
        self.peer.kept = None

    def pause_writing(self) -> None:
        """Read nothing more from a client that does not read."""
        self.is_paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_paused, self.now = False, self.loop.time()
        for stream in self.sending.values():
            stream.since = self.now
        self.transport.resume_reading()
        self.flush()

    def time_is_up(self) -> None:
        self.leave()

    def give_notice(self) -> None:
        """Tell the client to open no more streams here; those that it has opened are served."""
        with _WHILE_IT_LASTS:
            self.http2.send_shutdown_notice()
        self.flush()

    def leave(self) -> None:
        """Close the connection, and tell the client which streams it is to open again on another one."""
        with _WHILE_IT_LASTS:
            self.http2.send_goaway()
        self.flush()
        self.transport.close()

    def set_window(self, stream: Stream, size: int) -> None:
        with _WHILE_IT_LASTS:
            self.http2.set_local_window_size(size, stream_id=stream.number)
        self.flush()

    def acknowledge(self, stream: Stream, size: int) -> None:
        if size:
            try:
                self.http2.acknowledge_received_data(size, stream.number)
            except (ValueError, ngh2.NGH2Error):
                return  # ngh2 has forgotten a stream that is over

    def flush(self) -> None:
        """Send what is to be sent, as far as the network takes it."""
        if self._is_flushing or self.is_paused or self.transport.is_closing():
            return
        self._is_flushing = is_more = True
        try:
            while is_more and not self.is_paused:
                fed = False
                if self.sending:
                    fed = [stream.feed() for stream in list(self.sending.values()) if stream.is_open].count(True) > 0
                sent = self.http2.data_to_send(_MOST_WRITTEN)
                if sent:
                    self.transport.write(sent)
                if events := self.http2.events():
                    self._handle(events)
                is_more = fed or len(sent) == _MOST_WRITTEN or (bool(sent) and bool(self.sending))
                if not is_more and self.ending:
                    is_more = self._end_early()
                elif not is_more and not self.http2.want_read and not self.http2.want_write:
                    self.transport.close()
        except ngh2.NGH2Error:  # the connection has ended by its client's fault
            self.transport.close()
        finally:
            self._is_flushing = False

    def _end_early(self) -> bool:
        """Reset streams that have been answered before the request was whole. Return whether there are some."""
        done = [stream for stream in self.ending if stream.is_open and stream.is_sent]
        self.ending = [stream for stream in self.ending if stream.is_open and not stream.is_sent]
        for stream in done:
            self.http2.reset_stream(stream.number, ngh2.ErrorCode.NO_ERROR)
        return bool(done)

    def _handle(self, events: Iterable[ngh2.Event]) -> None:
        opened: dict[int, Stream] = {}
        for event in events:
            if isinstance(event, ngh2.RequestReceived):
                number = event.stream_id
                opened[number] = self._streams[number] = Stream(self, number, event.headers, event.end_stream)
                self._timer.since = self.loop.time()
            elif isinstance(event, ngh2.DataReceived):
                if (new := opened.get(event.stream_id)) is not None:
                    new.first += event.data
                    new.held += len(event.data)
                    new.is_whole = event.end_stream
                elif (known := self._streams.get(event.stream_id)) is not None:
                    known.receive(event.data, event.end_stream)
            elif isinstance(event, ngh2.TrailersReceived):
                if (new := opened.get(event.stream_id)) is not None:
                    new.is_whole = True
                elif (known := self._streams.get(event.stream_id)) is not None:
                    known.receive(b"", True)
            elif isinstance(event, ngh2.StreamClosed):
                opened.pop(event.stream_id, None)
                over = self._streams.pop(event.stream_id, None)
                if over is not None:
                    over.close()
                    self._timer.since = self.loop.time()
            elif isinstance(event, ngh2.SettingsReceived):
                self._has_greeted = True
                self._timer.since = self.loop.time()
            elif isinstance(event, ngh2.ConnectionClosed):
                self.transport.close()
        for stream in opened.values():
            if stream.is_open:
                self._open(stream)
