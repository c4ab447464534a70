"""One connection of HTTP believes one thing: however its bytes are cut, and whichever way serves them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http import ConnectionLimiter
from nnhal_hosting.whole_requests import Held, Responder
from tests.support.ambiguous_requests import REFUSED

LIMITS = ConnectionLimits(head_bytes=4096, headers=24)
LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
PLAIN = b"GET /plain HTTP/1.1\r\nHost: h\r\n\r\n"
TURNS = 30
"""Turns of the loop without an answer after which nothing moves any more: a request takes a few."""


class Seen(NamedTuple):
    """A request as it reached what serves it."""

    method: str
    path: str
    body: bytes


class Holding:
    """Nothing is held."""

    def release(self) -> None:
        """Nothing is to be done."""


class Server:
    """Answers each request with its body, and keeps what it has seen."""

    start = b"POST /whole"

    def __init__(self, serves_whole: bool) -> None:
        self.seen: list[Seen] = []
        self.limiter = ConnectionLimiter(LIMITS, whole_requests=self if serves_whole else None)
        self.config = uvicorn.Config(
            self.application,
            http=self.limiter.protocol(),
            ws="none",
            interface="asgi3",
            proxy_headers=False,
            log_config=None,
            access_log=False,
        )
        self.config.load()

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, but for paths that say otherwise, and answer with it."""
        body, more = b"", not scope["path"].startswith("/early")
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        assert not {b"trailer-field", b"upgrade-insecure"} & {name for name, _ in scope["headers"]}
        self.seen.append(Seen(scope["method"], scope["path"], body))
        headers = [(b"content-length", b"%d" % len(body))]
        try:
            raise LookupError("an answer may be sent while an exception is handled")
        except LookupError:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> str:
        return path

    def admit(self, known: str, length: int, connection: Responder) -> Held:
        return Holding()

    async def serve(self, known: str, held: Held, body: bytes, connection: Responder) -> None:
        self.seen.append(Seen("POST", known, body))
        connection.respond(200, (), body)


class Belief(NamedTuple):
    """The requests that were served, the status of each answer, and whether the connection has ended."""

    seen: list[Seen]
    statuses: list[int]
    answered: bytes
    has_ended: bool


@cache
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def talk(pieces: Sequence[bytes], serves_whole: bool = True) -> Belief:
    """Give a connection some pieces, one a turn of the loop, and return what came of them."""
    return loop().run_until_complete(_talk(pieces, serves_whole))


async def _talk(pieces: Sequence[bytes], serves_whole: bool) -> Belief:
    server = Server(serves_whole)
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        state = ServerState()
        transport, made = await loop().connect_accepted_socket(
            lambda: cast(Any, server.config.http_protocol_class)(
                config=server.config, server_state=state, app_state={}, _loop=loop()
            ),
            ours,
        )
        protocol = cast(asyncio.Protocol, made)
        answered = bytearray()
        for piece in pieces:
            protocol.data_received(piece)
            await asyncio.sleep(0)
        has_ended, quiet = False, 0
        while quiet < TURNS and not has_ended:
            await asyncio.sleep(0)
            try:
                received = theirs.recv(1 << 16)
            except BlockingIOError:
                quiet += 1
                continue
            answered += received
            has_ended, quiet = not received, 0
        transport.abort()
        while state.connections:
            await asyncio.sleep(0)
    assert server.limiter.open.total == 0
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", answered)]
    return Belief(server.seen, [status for status in statuses if status != 100], bytes(answered), has_ended)


UPGRADES = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"connection: keep-alive, upgrade\r\nUPGRADE: websocket\r\nSec-WebSocket-Key: AAAA\r\n",
    b"Upgrade: TLS/1.3, unknown/7\r\nConnection: Upgrade\r\n",
    b"Connection: Upgrade\r\n",
    b"Upgrade: h2c\r\n",
    b"",
)
METHODS = (b"GET", b"POST", b"PUT", b"OPTIONS", b"DELETE", b"CONNECT", b"PATCH")
TARGETS = (b"/a", b"/whole", b"/whole/b", b"/a%20b?c=d", b"http://h/a", b"//x/a")
EXTRAS = (
    b"Expect: 100-continue\r\n",
    b"TE: trailers\r\n",
    b"Accept: */*\r\n",
    b"Upgrade-Insecure-Requests: 1\r\n",
    b"",
)
BODIES = st.binary(max_size=40) | st.sampled_from((PLAIN, b"0\r\n\r\n", b"\r\n\r\n", PLAIN * 3))


class Request(NamedTuple):
    """A request's bytes, and how it is to be seen."""

    sent: bytes
    seen: Seen
    ends: bool


@st.composite
def requests(draw: st.DrawFn, targets: Sequence[bytes] = TARGETS) -> Request:
    method, target, body = draw(st.sampled_from(METHODS)), draw(st.sampled_from(targets)), draw(BODIES)
    version = draw(st.sampled_from((b"1.1", b"1.1", b"1.1", b"1.0")))
    if method == b"CONNECT":
        target = b"h:80"
    framing = draw(st.sampled_from(("length", "chunks", "nothing")))
    close = draw(st.sampled_from((b"", b"", b"", b"Connection: close\r\n")))
    lines = [b"Host: %s\r\n" % (b"h:80" if method == b"CONNECT" else b"h")]
    lines += [draw(st.sampled_from(UPGRADES)), draw(st.sampled_from(EXTRAS)), close]
    if framing == "nothing" or (framing == "chunks" and version == b"1.0"):
        body = b""
        end = b""
    elif framing == "length":
        lines.append(b"Content-Length: %d\r\n" % len(body))
        end = body
    else:
        lines.append(b"Transfer-Encoding: Chunked\r\n")
        cut = draw(st.integers(0, len(body)))
        chunks = [part for part in (body[:cut], body[cut:]) if part]
        extension = draw(st.sampled_from((b"", b";a=b", b';a="b"')))
        trailer = draw(st.sampled_from((b"", b"Trailer-Field: 1\r\n")))
        end = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in chunks)
        end += b"0\r\n" + trailer + b"\r\n"
    lines = draw(st.permutations(lines))
    path = {b"h:80": "/", b"http://h/a": "/a", b"/a%20b?c=d": "/a b"}.get(target, target.decode())
    seen = Seen(method.decode(), path, b"" if path == "/early" else body)
    sent = method + b" " + target + b" HTTP/" + version + b"\r\n" + b"".join(lines) + b"\r\n" + end
    return Request(sent, seen, bool(close) or version == b"1.0")


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes in pieces: each alone, or cut anywhere."""
    if draw(st.booleans()) and len(data) < 300:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if start < end]


@given(st.data())
def test_requests_are_seen_and_answered_as_they_were_sent(data: st.DataObject) -> None:
    sent = data.draw(st.lists(requests((*TARGETS, b"/early")), min_size=1, max_size=4))
    stream = b"".join(request.sent for request in sent) + LAST
    expected = [*(request.seen for request in sent), Seen("GET", "/last", b"")]
    served = next((at + 1 for at, request in enumerate(sent) if request.ends), len(expected))
    belief = talk(data.draw(cuts(stream)), data.draw(st.booleans()))
    assert belief.seen[:served] == expected[:served]
    assert belief.statuses == [200] * served
    assert belief.seen == expected[:served]
    assert belief.has_ended


@given(st.data())
def test_malformed_bytes_are_believed_the_same_in_pieces_and_by_either_way(data: st.DataObject) -> None:
    sent = data.draw(st.lists(requests(), min_size=1, max_size=3))
    stream = bytearray(b"".join(request.sent for request in sent) + LAST)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        change = data.draw(st.sampled_from((b"", b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"a", b"\r\n", b"0", b",")))
        stream[at : at + data.draw(st.integers(0, 2))] = change
    whole = talk([bytes(stream)], serves_whole=False)
    assert whole == talk([bytes(stream)], serves_whole=True)
    for serves_whole in (False, True):
        cut = talk(data.draw(cuts(bytes(stream))), serves_whole)
        assert (cut.seen, cut.statuses, cut.has_ended) == (whole.seen, whole.statuses, whole.has_ended)
    assert whole.statuses[: len(whole.seen)] == [200] * len(whole.seen)
    assert len(whole.statuses) <= len(whole.seen) + whole.has_ended  # one refusal, which ends the connection


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"], ids=["plain", "upgrade"])
def test_what_programs_may_understand_differently_is_refused_after_what_came_before(name: str, upgrade: bytes) -> None:
    sent, reason = REFUSED[name]
    head, end, rest = sent.partition(b"\r\n")
    for before in (b"", PLAIN):
        belief = talk([before + head + end + upgrade + rest + LAST])
        *answered, refused = re.split(rb"HTTP/1\.1 (?=\d{3} [A-Z])", belief.answered)[1:]
        assert len(answered) == len(belief.seen) == (before == PLAIN)
        status, _, body = refused.partition(b"\r\n\r\n")
        assert status.startswith(b"501 Not Implemented" if "another coding" in name else b"400 Bad Request")
        assert b"connection: close" in status
        assert reason in json.loads(body)["error"]
        assert belief.has_ended


@pytest.mark.parametrize("upgrade", [b"Upgrade: h2c", b"Upgrade: websocket", b"Upgrade: a"])
def test_limits_of_heads_hold_after_an_upgrade(upgrade: bytes) -> None:
    upgraded = PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\n" + upgrade + b"\r\n\r\n")
    for long in (b"GET /" + b"a" * 5000, PLAIN[:-2] + b"a: b\r\n" * 40, upgraded[:-2] + b"a: b\r\n" * 40):
        assert talk([upgraded, long]).statuses == [200, 431]
        assert talk([upgraded + long]).statuses == [200, 431]


def test_an_answer_that_is_under_way_is_not_followed_by_another() -> None:
    early = b"POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    belief = talk([early, b"no chunk"])
    assert (belief.statuses, belief.has_ended) == ([200], True)
