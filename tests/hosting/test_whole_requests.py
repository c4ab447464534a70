"""Heads of requests that are served as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nnhal_hosting.whole_requests import Held, KeptHeads, Responder

HEAD = b"POST /v2/a%20b?c=d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nA: b\r\na: c\r\n\r\n"
LENGTH = b"Content-Length: 3\r\n"


class Requests:
    """Keeps the path and the headers of each head."""

    start = b"POST /v2/"

    def __init__(self) -> None:
        self.read = 0

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> object:
        self.read += 1
        return None if path == "/v2/none" else (path, headers)

    def admit(self, known: Any, length: int, connection: Responder) -> Held | None:
        """Not asked here."""

    async def serve(self, known: Any, held: Any, body: bytes, connection: Responder) -> None:
        """Not asked here."""


def test_a_head_that_comes_again_is_read_once() -> None:
    requests = Requests()
    heads = KeptHeads(requests, 8, 2048)
    for body in (b"abc", b"d", b""):
        found = heads.of(HEAD + body)
        assert found is not None
        assert (found.end, found.length) == (len(HEAD), 3)
        assert found.known == ("/v2/a b", {b"host": b"h", b"content-length": b"3", b"a": b"b"})
    assert requests.read == 1


@pytest.mark.parametrize(
    "head",
    [
        HEAD[:-1],
        b"\r\n" + HEAD,
        HEAD.replace(b"POST", b"PUT "),
        HEAD.replace(b"/v2/", b"/v1/"),
        HEAD.replace(b"/v2/", b"/v2/none#"),
        HEAD.replace(b"a%20b?c=d", b"none"),
        HEAD.replace(b"1.1", b"1.0"),
        HEAD.replace(b"Host: h\r\n", b"Host: h\n"),
        HEAD.replace(b"Host: h\r\n", b"Host: h\r\n\n"),
        HEAD.replace(b"Host: h", b"Connection: close"),
        HEAD.replace(b"Host: h", b"Connection: upgrade\r\nUpgrade: h2c"),
        HEAD.replace(b"Host: h", b"Upgrade: h2c"),
        HEAD.replace(b"Host: h", b"Expect: 100-continue"),
        HEAD.replace(b"Host: h", b"Content-Encoding: gzip"),
        HEAD.replace(LENGTH, b""),
        HEAD.replace(LENGTH, 2 * LENGTH),
        HEAD.replace(LENGTH, b"Content-Length: -3\r\n"),
        HEAD.replace(LENGTH, b"Content-Length: 3, 3\r\n"),
        HEAD.replace(LENGTH, b"Transfer-Encoding: chunked\r\n"),
        HEAD.replace(LENGTH, LENGTH + b"Transfer-Encoding: chunked\r\n"),
        HEAD.replace(LENGTH, LENGTH + 6 * b"a: b\r\n"),
        HEAD.replace(LENGTH, LENGTH + b"a: " + b"b" * 2048 + b"\r\n"),
    ],
)
def test_other_heads_are_left_to_the_application(head: bytes) -> None:
    assert KeptHeads(Requests(), 8, 2048).of(head + b"abc") is None
