"""Clients that stall, and connections beyond the limit."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import httpx
import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_hosting.connection_limits import ConnectionLimits
from tests.service.v2.http.conftest import Served, serving
from tests.support.v2 import FakeModel
from tests.support.waiting import wait_until

LIVE = "/v2/health/live"
HEAD = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HEAD + b"\r\n"
POST = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
UPGRADE = HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
IN_PARTS = POST + b"Transfer-Encoding: chunked\r\n\r\n"
STALLED = ConnectionLimits(stalled_seconds=1, idle_seconds=120)


@pytest.fixture
def impatient() -> Iterator[Served]:
    """A server that waits one second for a client that stalls."""
    with serving(FakeModel(), limits=STALLED) as front:
        yield front


@contextmanager
def connected(served: Served, *sent: bytes) -> Iterator[socket.socket]:
    """A connection on which these bytes have been sent."""
    url = served.client.base_url
    with closing(socket.create_connection((url.host, url.port), timeout=60)) as connection:
        connection.sendall(b"".join(sent))
        yield connection


def rest(connection: socket.socket) -> bytes:
    """The bytes that come until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def ended(connection: socket.socket) -> bool:
    """Return whether the server has sent something, or closed the connection."""
    return bool(select.select([connection], [], [], 0.02)[0])


def live(served: Served) -> bool:
    try:
        return httpx.get(served.client.base_url.join(LIVE), verify=False).status_code == 200
    except httpx.TransportError:
        return False


def require_408(answer: bytes, text: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close" in head
    assert body == b'{"error":"%s"}' % text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"G", b"the head of the request was not whole within 1 s"),
        (HEAD, b"the head of the request was not whole within 1 s"),
        (POST + b"Content-Length: 8\r\n\r\n\0\0", b"nothing of the body came for 1 s"),
        (IN_PARTS + b"4\r\n\0\0", b"nothing of the body came for 1 s"),
        (UPGRADE + HEAD, b"the head of the request was not whole within 1 s"),
        (UPGRADE + POST + b"Content-Length: 8\r\n\r\n\0\0", b"nothing of the body came for 1 s"),
        (WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Length: 8\r\n\r\n"), b""),
    ],
)
def test_half_a_request_is_not_waited_for_while_others_are_served(impatient: Served, sent: bytes, text: bytes) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connected(impatient, sent)) for _ in range(20)]
        waiting = set(held)
        while waiting:
            assert live(impatient)
            waiting -= set(select.select(waiting, [], [], 0)[0])
        for connection in held:
            answer = rest(connection)
            if sent.startswith(UPGRADE):
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                answer = answer[answer.rindex(b"HTTP/1.1 ") :]
            if text:
                require_408(answer, text)
            else:  # the route does not read the body
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert impatient.model.requests == []


@pytest.mark.slow
def test_a_head_that_trickles_is_not_waited_for(impatient: Served) -> None:
    with connected(impatient, HEAD) as connection:
        while not ended(connection):
            connection.send(b"a")
        require_408(connection.recv(65536), b"the head of the request was not whole within 1 s")


@pytest.mark.slow
def test_a_body_that_goes_on_may_take_longer() -> None:
    with (
        serving(FakeModel(), limits=ConnectionLimits(stalled_seconds=2)) as served,
        connected(served, POST, b"Content-Length: 400\r\n\r\n") as connection,
    ):
        for _ in range(150):  # three seconds
            connection.sendall(b"\0\0")
            assert not ended(connection)
        connection.sendall(bytes(100))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.slow
def test_a_model_that_takes_long_is_not_the_client_s_fault(impatient: Served) -> None:
    with connected(impatient, HEAD) as other:

        def run(request: object) -> dict[str, Array]:
            rest(other)  # longer than a client may take
            return {"x": np.zeros(1, np.float32)}

        impatient.model.run = run
        with connected(impatient, POST, b"Content-Length: 4\r\n\r\n\0\0\0\0") as connection:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("sent", [b"", b"\r\n", WHOLE], ids=["nothing", "an empty line", "a request"])
def test_a_connection_without_a_request_is_closed_without_a_word(sent: bytes) -> None:
    with (
        serving(FakeModel(), limits=ConnectionLimits(stalled_seconds=60, idle_seconds=0.5)) as served,
        connected(served, sent) as connection,
    ):
        answer = rest(connection)
        assert answer.endswith(b'\r\n\r\n{"live":true}') if sent == WHOLE else answer == b""


@pytest.mark.slow
def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    limits = ConnectionLimits(1, STALLED.stalled_seconds, STALLED.idle_seconds)
    large = np.zeros(1 << 24, np.float32)
    with serving(FakeModel(lambda _: {"x": large}), limits=limits) as served, closing(socket.socket()) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect((served.client.base_url.host, served.client.base_url.port))
        lazy.sendall(POST + b"Content-Length: 4\r\n\r\n\0\0\0\0")
        select.select([lazy], [], [])  # the response has begun
        assert not live(served)
        wait_until(lambda: live(served), "its connection is closed")


def test_one_connection_too_many_is_told_so() -> None:
    with serving(FakeModel(), limits=ConnectionLimits(connections=2)) as served, ExitStack() as stack:
        first, _ = (stack.enter_context(connected(served)) for _ in range(2))
        with connected(served) as third:
            answer = rest(third)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert answer.endswith(b'{"error":"there are 2 connections, and no more may be"}')
        first.sendall(WHOLE)
        assert first.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        first.close()
        wait_until(lambda: live(served), "there is room for another")
