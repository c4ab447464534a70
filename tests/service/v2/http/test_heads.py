"""Length of a request's head, and number of its headers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from nnhal_hosting.connection_limits import ConnectionLimits
from tests.service.v2.http.conftest import Served, serving
from tests.support.v2 import FakeModel

LINE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = (
    b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
    b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\0\0\0\0\r\n"
)
LIMITS = ConnectionLimits(head_bytes=4096, headers=20)
TOO_LONG = b'{"error":"the request has more than 4096 bytes beside its body"}'
TOO_MANY = b'{"error":"the request has more than 20 headers"}'


@pytest.fixture(scope="module")
def strict() -> Iterator[Served]:
    """A server that takes short heads only."""
    with serving(FakeModel(), limits=LIMITS) as front:
        yield front


def answer(served: Served, *sent: bytes) -> bytes:
    """Return what comes after these bytes until the connection ends."""
    url = served.client.base_url
    with closing(socket.create_connection((url.host, url.port), timeout=60)) as connection:
        for part in sent:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused already
                connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET /" + b"a" * 4096, TOO_LONG),
        (LINE + b"a" * 4096, TOO_LONG),
        (LINE + b"a: " + b"b" * 4096, TOO_LONG),
        (LINE + b"a: " + b"b" * 4096 + b"\r\n\r\n", TOO_LONG),
        (LINE + b"a: b\r\n" * 21, TOO_MANY),
        (LINE + b"a: b\r\n" * 20 + b"\r\n", TOO_MANY),
        (CHUNKED + b"4;" + b"a" * 600_000, TOO_LONG),
        (CHUNKED + b"0\r\na: " + b"b" * 600_000, TOO_LONG),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * 40 + b"\r\n", TOO_MANY),
    ],
)
def test_a_head_that_is_too_large_is_refused(strict: Served, sent: bytes, message: bytes) -> None:
    refused = answer(strict, *[sent[start : start + 1000] for start in range(0, len(sent), 1000)])
    assert refused.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert refused.endswith(message)
    assert strict.client.get("/v2/health/live").status_code == 200


def test_a_head_within_the_limits_is_served(strict: Served) -> None:
    whole = LINE + b"a: " + b"b" * 3900 + b"\r\n" + b"c: d\r\n" * 17
    assert answer(strict, whole + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    ended = CHUNKED + b"4;" + b"a" * 1000 + b"\r\n\0\0\0\0\r\n0\r\nd: e\r\n\r\n"
    assert answer(strict, ended).startswith(b"HTTP/1.1 200 OK\r\n")


def test_each_request_of_a_connection_has_a_head_of_its_own(strict: Served) -> None:
    one = LINE + b"a: " + b"b" * 3000 + b"\r\n" + b"c: d\r\n" * 15
    last = one + b"Connection: close\r\n\r\n"
    for requests in ([one + b"\r\n"] * 9, [(one + b"\r\n") * 9]):
        assert answer(strict, *requests, last).count(b"HTTP/1.1 200 OK\r\n") == 10


def test_a_body_is_no_head(strict: Served) -> None:
    body = bytes(100_000)
    chunked, _, _ = CHUNKED.partition(b"4\r\n")
    plain = chunked.replace(b"Transfer-Encoding: chunked", b"Content-Length: 100000")
    for whole in (plain + body, chunked + b"186a0\r\n" + body + b"\r\n0\r\n\r\n"):
        assert answer(strict, whole).startswith(b"HTTP/1.1 200 OK\r\n")
        pieces = [whole[start : start + 1000] for start in range(0, len(whole), 1000)]
        assert answer(strict, *pieces).startswith(b"HTTP/1.1 200 OK\r\n")
