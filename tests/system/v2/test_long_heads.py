"""Heads of requests without an end, and those that are to be refused, at every port of HTTP: one rule for all."""

from __future__ import annotations

import http.client
import json
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice, repeat

import grpc
import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.supervision import Child
from tests.support.ambiguous_requests import REFUSED
from tests.support.model_server import Devices, Served, addresses, model_server
from tests.support.processes import WARM
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import forget_peak, peak_bytes
from tests.support.tokens import bearer, token_file
from tests.support.v2 import call
from tests.support.waiting import wait_until

_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = 1 << 16
_PIECES = 256
"""16 MiB in all, which no server should read."""


def _endless(begin: bytes, part: bytes) -> Iterator[bytes]:
    """A beginning, and the part again and again."""
    yield begin
    yield from repeat(part * (_PIECE // len(part)), _PIECES)


LONG_HEADS = {
    "a long target": (b"GET /", b"a"),
    "a long name of a header": (_REQUEST, b"a"),
    "a long value of a header": (_REQUEST + b"a: ", b"b"),
    "long headers": (_REQUEST, b"a: " + b"b" * 1000 + b"\r\n"),
    "many headers": (_REQUEST, b"a: b\r\n"),
    "a long extension of a chunk": (_CHUNKED + b"4;", b"a"),
    "a long trailer": (_CHUNKED + b"0\r\na: ", b"b"),
    "many trailers": (_CHUNKED + b"0\r\n", b"a: b\r\n"),
}
"""What to send first, and what then without an end."""


def answer_to(address: str, name: str) -> bytes:
    """Send one of LONG_HEADS to HOST:PORT until the server has enough of it, and return its answer, empty if none."""
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), 60)) as connection:
        for piece in islice(_endless(*LONG_HEADS[name]), _PIECES):
            try:
                connection.sendall(piece)
            except OSError:
                break
        else:
            raise AssertionError(f"the server has read {_PIECES * _PIECE} bytes of {name}")
        answer = b""
        with suppress(ConnectionResetError):
            while received := connection.recv(_PIECE):
                answer += received
        return answer


SPARE = 16 << 20
TOO_LONG = (b"HTTP/1.1 431 ", b"")
"""A connection that is closed while the client sends may lose its answer."""


@pytest.fixture(scope="module")
def fronted(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with tokens and front workers: its own process serves metrics, and they the protocol."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file()})
    tokens = token_file(tmp_path_factory.mktemp("tokens"), ci="infer")
    with model_server(device_processes, repository, "--front-workers", "2", "--tokens", str(tokens)) as served:
        yield served


@pytest.fixture(scope="module")
def dashboard() -> Iterator[tuple[Child, str]]:
    """The process of a dashboard that has nothing to show, and its address."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        child = Child("nnhal_dashboard", ["--directory", directory, "--port", "0"], zygote=WARM)
        try:
            child.wait_until_ready()
            wait_until(lambda: "http://" in child.said(), "it says where it is")
            yield child, child.said().partition("http://")[2].split()[0].rstrip("/")
        finally:
            child.stop()


def refused(address: str, name: str) -> None:
    assert answer_to(address, name).startswith(TOO_LONG)
    host, _, port = address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_HEADS)
def test_no_head_takes_memory(served: Served, name: str) -> None:
    before = forget_peak(served.pid)
    refused(served.http, name)
    assert peak_bytes(served.pid) - before < SPARE


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_HEADS)
def test_other_ports_have_the_same_limit(fronted: Served, dashboard: tuple[Child, str], name: str) -> None:
    child, pages = dashboard
    before = forget_peak(child.pid)
    for address in (fronted.http, addresses(fronted.child)["metrics"], pages):
        refused(address, name)
    assert peak_bytes(child.pid) - before < SPARE


@pytest.fixture(scope="module")
def ports(served: Served, fronted: Served, dashboard: tuple[Child, str]) -> dict[str, str]:
    """Return where each kind of process serves HTTP."""
    metrics = addresses(fronted.child)["metrics"]
    return {"framework": served.http, "front worker": fronted.http, "metrics": metrics, "dashboard": dashboard[1]}


def sent(address: str, data: bytes) -> list[bytes]:
    """Send some bytes, and return the answers that come until the server closes the connection."""
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(data)
        answered = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return re.split(rb"HTTP/1\.1 (?=\d{3} [A-Z])", answered)[1:]


@pytest.mark.slow
@pytest.mark.parametrize("port", ["framework", "front worker", "metrics", "dashboard"])
def test_what_programs_may_understand_differently_is_refused_at_every_port(ports: dict[str, str], port: str) -> None:
    for request, reason in REFUSED.values():
        (answer,) = sent(ports[port], request + b"\r\n\r\n")
        status, _, body = answer.partition(b"\r\n\r\n")
        assert status[:4] in (b"400 ", b"501 "), answer
        assert reason in json.loads(body)["error"]


@pytest.mark.slow
@pytest.mark.parametrize("port", ["framework", "front worker", "metrics", "dashboard"])
def test_an_upgrade_changes_nothing_at_any_port(ports: dict[str, str], port: str) -> None:
    offer = b"Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMA\r\n"
    page = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for protocol in (b"h2c", b"websocket", b"a/1, b"):
        post = b"POST /nowhere HTTP/1.1\r\n" + offer % protocol
        inner = post + b"Content-Length: %d\r\n\r\n%s" % (len(page), page)  # the body is no request
        chunks = post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(page), page)
        tunnel = b"CONNECT a:1 HTTP/1.1\r\n" + offer % protocol + b"\r\nno\r\n\r\n"
        *answers, last = sent(ports[port], inner + chunks + tunnel)
        assert len(answers) == 3, (answers, last)
        assert last.startswith(b"400 ")
        *answers, last = sent(ports[port], inner + b"GET /" + b"a" * 40_000)
        assert len(answers) == 1
        assert last.startswith(b"431 ")


@pytest.mark.slow
@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_body_of_an_upgrade_is_read_also_with_tokens(served: Served, fronted: Served, is_chunked: bool) -> None:
    tensor = {"name": "x", "shape": numbers().shape, "datatype": "FP32", "data": numbers().reshape(-1).tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMA"}
    for server in (served, fronted):
        host, _, port = server.http.rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
            for _ in range(3):  # the connection goes on
                given = iter([body[:9], body[9:]]) if is_chunked else body
                headers = {**offer, **bearer("ci")}
                connection.request("POST", "/v2/models/tanh/infer", given, headers, encode_chunked=is_chunked)
                answer = connection.getresponse()
                assert (answer.status, b"outputs" in answer.read()) == (200, True)


@pytest.mark.slow
def test_metadata_of_grpc_has_a_limit(served: Served) -> None:
    before = forget_peak(served.pid)
    with grpc.insecure_channel(served.grpc, [("grpc.max_metadata_size", 1 << 26)]) as channel:
        for metadata in ([("a", "b" * (8 << 20))], [(f"a{index}", "b" * 1000) for index in range(8000)]):
            with pytest.raises(grpc.RpcError):
                call(channel, "ServerLive", wire.ServerLiveRequest(), metadata)
    with grpc.insecure_channel(served.grpc) as channel:
        call(channel, "ServerLive", wire.ServerLiveRequest(), [("a", "b" * 4000)])
    assert peak_bytes(served.pid) - before < SPARE
