"""Asking for a page."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal_tools.health.failure import Unhealthy
from nnhal_tools.health.page import require_page
from tests.support.certificates import authority, signed


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Answer one request. Yields the address, and what was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        connection = listener.accept()[0]
        with context.wrap_socket(connection, server_side=True) if context else connection as served:
            asked.append(served.recv(4096))
            served.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        yield f"127.0.0.1:{listener.getsockname()[1]}", asked
        served.result()


@pytest.mark.parametrize("status", ["200 OK", "204", "303 See Other"])
def test_a_page_and_a_page_elsewhere_are_healthy(status: str) -> None:
    with answering(f"HTTP/1.1 {status}\r\n\r\n".encode()) as (address, asked):
        require_page(f"http://{address}/v2/health/ready?x=1", 10.0)
    head, host, *_ = asked[0].decode().split("\r\n")
    assert (head, host) == ("GET /v2/health/ready?x=1 HTTP/1.1", f"Host: {address}")


def test_an_error_is_unhealthy_and_its_line_is_told() -> None:
    with answering(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") as (address, _):  # noqa: SIM117
        with pytest.raises(Unhealthy, match=r"^it answers 'HTTP/1.1 503 Service Unavailable'$"):
            require_page(f"http://{address}/", 10.0)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n"])
def test_what_does_not_speak_http_is_unhealthy(answer: bytes) -> None:
    with answering(answer) as (address, _), pytest.raises(Unhealthy):
        require_page(f"http://{address}", 10.0)


def test_a_silent_server_and_a_port_that_nobody_listens_at_are_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(Unhealthy, match=r"^no answer within 0.1 s$"):
            require_page(url, 0.1)
    with pytest.raises(Unhealthy, match="Connection refused"):
        require_page(url, 10.0)


def test_a_server_with_tls_is_asked_without_knowing_its_authority(tmp_path: Path) -> None:
    pair = signed(tmp_path, "server", authority(tmp_path, "authority"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", context) as (address, _):
        require_page(f"https://{address}/", 10.0)


def test_a_port_that_is_no_number_is_said() -> None:
    with pytest.raises(Unhealthy, match="got port 'http'"):
        require_page("http://localhost:http/", 10.0)
