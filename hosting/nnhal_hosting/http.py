"""The connections of HTTP: uvicorn's, with limits of their number, of the time that clients may take, and of heads.

One parser reads the bytes of a connection, and the limits are kept where it calls back: what it takes for a request is
one for the limits, for the application and for what is answered. Some requests are served as a whole
(``nnhal_hosting.whole_requests``): neither the parser nor uvicorn sees anything of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from nnhal_hosting.connection_limits import ConnectionLimits, StallTimer
from nnhal_hosting.http_heads import RefusedError, require_plain, require_trailer
from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_hosting.whole_requests import DirectWay, KeptHeads, WholeRequests


class ConnectionLimiter:
    """The limits and the open connections of one server. Only the server's loop uses it."""

    def __init__(
        self,
        limits: ConnectionLimits,
        connections: SharedNumber | None = None,
        whole_requests: WholeRequests | None = None,
    ) -> None:
        """``connections`` are those that are open, if other processes share the limit. ``whole_requests`` serves those
        requests that it knows how to.
        """
        self.limits = limits
        self.open = SharedNumber() if connections is None else connections
        self.whole_requests = whole_requests

    def protocol(self) -> type[asyncio.Protocol]:
        """The class of the server's connections, for uvicorn to make."""
        limiter, whole = self, self.whole_requests
        heads = None if whole is None else KeptHeads(whole, self.limits.headers, self.limits.head_bytes)

        class Connection(LimitedConnection):
            def __init__(self, *arguments: Any, **named: Any) -> None:
                super().__init__(limiter, *arguments, **named)
                if whole is not None and heads is not None:
                    self.direct = DirectWay(self, whole, heads)

        return Connection


_BESIDE_HEADER = 4
"""The bytes of a header beside its name and its value: a colon, a space and the end of the line."""
_LINGER_SECONDS = 1.0
_MOST_DISCARDED = 1 << 18
_MOST_PARSED = 1 << 14
"""The bytes that the parser gets at a time: a client may have so many requests parsed before the first is answered."""
_END = "nnhal.end"


class _Awaited(Enum):
    """Part that the client sends next."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """The last request has come, or one has been refused: whatever comes is no request."""


class _ConnectionEnd:
    """Calls back when a connection ends."""

    def __init__(self) -> None:
        self._is_lost = False
        self._callbacks: list[Callable[[], None]] = []

    def come(self) -> None:
        self._is_lost = True
        for callback in self._callbacks:
            callback()

    @contextmanager
    def watched(self, lost: Callable[[], None]) -> Iterator[None]:
        if self._is_lost:
            lost()
        self._callbacks.append(lost)
        try:
            yield
        finally:
            self._callbacks.remove(lost)


class _Flow(FlowControl):
    """Reads nothing more while the bytes that came are not used up, whatever uvicorn wishes."""

    is_held = False

    def hold(self) -> None:
        self.is_held = True
        self.pause_reading()

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            self.resume_reading()

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class LimitedConnection(HttpToolsProtocol):
    """A connection that ends if its client stalls, with 408 if the request can still be answered.

    A client that does not read its response stalls too. One connection too many is answered with 503, a head that is
    too large with 431, and what is no plain request with 400; then the connection ends. Requests are answered in their
    order, and so is what is refused. Other protocols are not spoken here, so that a request to switch to one is served
    as if it did not ask for that (RFC 9110, 7.8).
    """

    flow: _Flow

    def __init__(self, limiter: ConnectionLimiter, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = httptools.HttpRequestParser(self)  # without uvicorn's leniencies
        self.direct: DirectWay | None = None
        self._limiter = limiter
        self._end = _ConnectionEnd()
        self._awaited = _Awaited.REQUEST
        self._unread = b""
        """Bytes that came while a request was served."""
        self._unanswered: list[RequestResponseCycle] = []
        """The requests whose heads uvicorn has been given, the first of which is served."""
        self._is_last = False
        """True if the connection ends with the request that was read last."""
        self._is_refused = False
        self._lingering: asyncio.TimerHandle | None = None
        """Closes a connection whose last request was refused."""
        self._refusal: RefusedError | None = None
        """Waits for the answers to the requests before."""
        self._stops = False
        """True if the parser stops after the head that it reads, since it asks for another protocol."""
        self._is_repeated = False
        """True if the parser reads a head for the second time."""
        self._discarded = 0
        self._piece = 0
        self._head_bytes = 0
        self._headers = 0
        self._beside = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))  # a stream's; uvloop's is no subclass
        self.flow = _Flow(self.transport)
        if self.direct is not None:
            self.direct.connection_made()
        self._limiter.open.add(1)
        self._timer = StallTimer(self, self._limiter.limits, self.loop)
        if self._limiter.open.total > self._limiter.limits.connections:
            message = f"there are {self._limiter.limits.connections} connections, and no more may be"
            self._awaited = _Awaited.NOTHING
            self._respond(HTTPStatus.SERVICE_UNAVAILABLE, message)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._awaited is _Awaited.NOTHING:
            self._discard(data)
            return
        if self._awaited is _Awaited.BODY:
            self._timer.since = self.loop.time()
        self._unread = self._unread + data if self._unread else data
        self._read_on()

    def pause_writing(self) -> None:
        if self.direct is not None:
            self.direct.pause_writing()
        super().pause_writing()

    def resume_writing(self) -> None:
        if self.direct is not None:
            self.direct.resume_writing()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.open.add(-1)
        self._timer.cancel()
        if self._lingering is not None:
            self._lingering.cancel()
        self._end.come()
        for cycle in self._unanswered:  # uvicorn tells the last one only
            _disconnect(cycle)
        if self.direct is not None:
            self.direct.connection_lost()
        super().connection_lost(exc)
        # What refers to the connection would keep it until a garbage collection.
        self._awaited, self._unread, self.direct = _Awaited.NOTHING, b"", None
        self._unanswered.clear()
        self.pipeline.clear()
        del self.cycle, self.scope, self.headers

    def shutdown(self) -> None:
        if self.direct is not None and self.direct.is_serving:
            self.direct.closes = True
        else:
            super().shutdown()

    def on_message_begin(self) -> None:
        """The parser has read the first byte of a request."""
        if self._is_repeated:
            return
        super().on_message_begin()
        self.scope["extensions"] = {_END: {_END: self._end}}
        self._expect(_Awaited.HEAD)
        self._head_bytes = self._headers = 0
        # Where in the piece the request begins is unknown, unless the piece begins with it.
        self._beside, self._piece = self._piece, 0

    def on_url(self, url: bytes) -> None:
        """The parser has read the target of a request, or a part of it."""
        if not self._is_repeated:
            super().on_url(url)
            self._grow(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header or a trailer. The application gets no trailers."""
        if self._is_repeated:
            return
        self._headers += 1
        self._grow(len(name) + len(value) + _BESIDE_HEADER)
        if self._awaited is _Awaited.BODY:
            require_trailer(name.lower())
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stops = self.parser.should_upgrade()
        if self._stops:
            return
        require_plain(self.parser.get_http_version(), self.url, self.headers)
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self._is_last = not self.cycle.keep_alive
        self._expect(_Awaited.BODY)
        self._beside = 0

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The parser has read the whole request."""
        if not self._stops:
            super().on_message_complete()
            self._expect(_Awaited.NOTHING if self._is_last else _Awaited.REQUEST)

    def on_response_complete(self) -> None:
        """The response to the first of the requests has been written, but may not have been sent yet."""
        self._unanswered.pop(0)
        self._timer.since = self.loop.time()
        if self._refusal is not None and not self._waits_for_answers:
            self._answer_refusal(self._refusal)
            return
        Context().run(super().on_response_complete)  # the next request is not served in the context of this one
        self._unset_keepalive_if_required()  # the limits have their own timer
        self._read_on_soon()

    def begin_whole(self) -> None:
        """A request that uvicorn does not see has begun, of which more has to come."""
        self._expect(_Awaited.BODY)

    def end_whole(self) -> None:
        self._awaited = _Awaited.REQUEST

    def end_serving(self) -> None:
        self._timer.since = self.loop.time()
        if self._unread:
            self._read_on_soon()

    @property
    def _waits_for_answers(self) -> bool:
        """Return whether a request that has come has not been answered."""
        if self._unanswered:
            return not self._unanswered[0].more_body
        return self.direct is not None and self.direct.is_serving and not self.direct.is_gathering

    @property
    def _is_serving(self) -> bool:
        return bool(self._unanswered) or (self.direct is not None and self.direct.is_serving)

    def _read_on_soon(self) -> None:
        """Read on what came while a request was served: not in the context of that request, and not while it handles an
        exception, which Python would put in the place of those that the parser's callbacks raise.
        """
        if self._unread:
            self.loop.call_soon(self._read_on, context=Context())

    def _read_on(self) -> None:
        """Read the bytes that came up to the end of a request. Those after it are read when that has been answered."""
        data, start = self._unread, 0
        while start < len(data) and self._awaited is not _Awaited.NOTHING and not self.transport.is_closing():
            if self._waits_for_answers:
                self._unread = data[start:]
                self.flow.hold()
                return
            is_at_rest = self._awaited is _Awaited.REQUEST and not self._unanswered
            if self.direct is not None and (is_at_rest or self.direct.is_gathering):
                taken = self.direct.take(data[start:])
                if taken:
                    start += taken
                    continue
            start += self._parse(data[start : start + _MOST_PARSED])
        self._unread = b""
        if self.flow.is_held and self._awaited is not _Awaited.NOTHING:
            self.flow.release()

    def _parse(self, piece: bytes) -> int:
        """Have the parser read a piece, and refuse it if it is no request. Return how many bytes it has read."""
        begins = self._awaited is _Awaited.REQUEST
        self._piece = len(piece) if begins else 0
        if not begins:
            self._beside += len(piece)
        read = len(piece)
        try:
            read = self._feed(piece)
            # Names, values and extensions that are not whole yet are no header, but are kept.
            if self._awaited in (_Awaited.HEAD, _Awaited.BODY) and self._beside > self._limiter.limits.head_bytes:
                raise self._too_long()
        except httptools.HttpParserError as error:
            if self._awaited is not _Awaited.NOTHING:  # what comes after the last request does not matter
                self._refuse(_refusal_of(error))
        except RefusedError as error:
            self._refuse(error)
        return read

    def _feed(self, piece: bytes) -> int:
        """Have the parser read a piece, or only up to the end of a head that asks for another protocol."""
        try:
            self.parser.feed_data(piece)
            return len(piece)
        except httptools.HttpParserUpgrade as stop:
            read = int(stop.args[0])
        self._repeat_head()
        return read

    def _repeat_head(self) -> None:
        """Give a parser the head again without what makes it stop after the head, so that it reads the body."""
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":
            self.url = b"/"  # its target is no path
        lines = [b"GET / HTTP/" + version.encode()]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser, self._is_repeated = httptools.HttpRequestParser(self), True
        try:
            self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))
        finally:
            self._is_repeated = False
        self.scope["method"] = method.decode()

    def _grow(self, size: int) -> None:
        limits = self._limiter.limits
        self._head_bytes += size
        if self._head_bytes > limits.head_bytes:
            raise self._too_long()
        if self._headers > limits.headers:
            message = f"the request has more than {limits.headers} headers"
            raise RefusedError(message, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _too_long(self) -> RefusedError:
        message = f"the request has more than {self._limiter.limits.head_bytes} bytes beside its body"
        return RefusedError(message, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, refusal: RefusedError) -> None:
        """Refuse the request that is read, once those before it have been answered, and read no other."""
        is_answered = self._awaited is _Awaited.BODY and not self._is_serving  # without its body
        self._awaited, self._unread = _Awaited.NOTHING, b""
        self._timer.since = self.loop.time()
        if is_answered:
            self._linger()
        elif self._waits_for_answers:
            self._refusal = refusal
        else:
            self._answer_refusal(refusal)

    def _answer_refusal(self, refusal: RefusedError) -> None:
        if self._unanswered and self._unanswered[0].response_started:
            self.transport.abort()
            return
        for cycle in self._unanswered:  # the request itself
            _disconnect(cycle)
        self.pipeline.clear()
        self._respond(refusal.status, str(refusal))
        self._linger()

    def _linger(self) -> None:
        """Read on for a moment, and close: a connection that is closed with bytes unread loses its answer."""
        self._is_refused = True
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        self._lingering = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _discard(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > _MOST_DISCARDED:
            self.flow.hold()
            if self._is_refused:
                self.transport.close()

    def _expect(self, awaited: _Awaited) -> None:
        self._awaited = awaited
        self._timer.since = self.loop.time()

    @property
    def is_idle(self) -> bool:
        return self._awaited is _Awaited.REQUEST

    @property
    def waits_for_server(self) -> bool:
        """Return whether the client has sent all that it can before the server goes on."""
        is_blocked = self._awaited is not _Awaited.BODY or self._waits_for_answers or not self.transport.is_reading()
        return self._is_serving and is_blocked

    def time_is_up(self) -> None:
        seconds = self._limiter.limits.stalled_seconds
        if self._awaited is _Awaited.HEAD:
            message = f"the head of the request was not whole within {seconds:g} s"
            self._refuse(RefusedError(message, HTTPStatus.REQUEST_TIMEOUT))
        elif self._awaited is _Awaited.BODY:
            message = f"nothing of the body came for {seconds:g} s"
            self._refuse(RefusedError(message, HTTPStatus.REQUEST_TIMEOUT))
        else:
            self.transport.close()

    def _respond(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"error": message}, separators=(",", ":"))
        headers = [
            *self.server_state.default_headers,
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
            (b"connection", b"close"),
        ]
        lines = [b"%s: %s\r\n" % header for header in headers]
        if not self.transport.is_closing():
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body.encode()]))


def while_connected(scope: Scope, lost: Callable[[], None]) -> AbstractContextManager[None]:
    """A context in which ``lost`` is called when the connection of a request ends; at once if it has."""
    extension = scope.get("extensions", {}).get(_END)
    return nullcontext() if extension is None else extension[_END].watched(lost)


def _disconnect(cycle: RequestResponseCycle) -> None:
    cycle.disconnected, cycle.waiting_for_100_continue = True, False
    cycle.message_event.set()


def _refusal_of(error: httptools.HttpParserError) -> RefusedError:
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    return cause if isinstance(cause, RefusedError) else RefusedError(f"the request is malformed: {cause}")
