"""Messages that are no request, half of one, or too large are refused or dropped, and others are served meanwhile."""

from __future__ import annotations

import gzip
import json
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import httpx
import pytest
import tritonclient.http
from google.protobuf.message_factory import GetMessageClass

from tests.service.v2.grpc.test_fuzz import WORDS
from tests.support.model_server import Devices, Served, model_server
from tests.support.random_messages import fill
from tests.support.repositories import numbers
from tests.support.searching import further
from tests.support.served_models import echo, write_models
from tests.support.tritonclients import Triton
from tests.support.v2 import SERVICE, in_bytes

pytestmark = pytest.mark.search
UNARY = [method.name for method in SERVICE.methods if not method.client_streaming]
MODELS = ["tanh", "pair", "classes", *map(echo, ("FP32", "BYTES", "INT8")), "x", "y", "a", "b", "1"]
ROUNDS = further(15)
ANSWERS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
DEFECT = "the log of the server says why"
INFER = "/v2/models/echo_fp32/infer"
TENSOR = {"name": "x", "shape": [1, 4], "datatype": "FP32"}
POST = b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
HALVES = {
    "of a head": POST,
    "of a body": POST + b"Content-Length: 1000\r\n\r\n{",
    "of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{",
}


@pytest.fixture(scope="module")
def fuzzed(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework of its own: among what is made up are loading, unloading and settings."""
    repository = write_models(tmp_path_factory.mktemp("repository"))
    options = ("--allow-client-shm", "--http-max-input-size", "100000")
    with model_server(device_processes, repository, *options) as process:
        yield process


@pytest.fixture
def http(fuzzed: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{fuzzed.http}", timeout=60) as client:
        yield client


def require_service(fuzzed: Served) -> None:
    with Triton("http", tritonclient.http, fuzzed.http) as client:
        client.client.load_model("tanh")
        assert client.infer("tanh", {"x": numbers()}).as_numpy("y").shape == (1, 8)


@pytest.mark.parametrize("name", UNARY)
def test_random_messages_are_answered_or_refused(fuzzed: Served, name: str) -> None:
    source = random.Random(name)
    kind = GetMessageClass(SERVICE.methods_by_name[name].input_type)
    with grpc.insecure_channel(fuzzed.grpc) as channel:
        method = in_bytes(channel, name)
        for number in range(ROUNDS):
            message = kind()
            fill(message, source, [*WORDS, *MODELS])
            data = bytearray(message.SerializeToString() or b"\x08")
            if number % 2:
                data[source.randrange(len(data))] = source.randrange(256)
                del data[source.randint(1, len(data)) :]
            try:
                method(bytes(data), timeout=30)
            except grpc.RpcError as error:
                assert error.code() in ANSWERS
                assert error.details()
                assert DEFECT not in (error.details() or "")
    require_service(fuzzed)


def test_random_bytes_as_bodies_are_refused(fuzzed: Served, http: httpx.Client) -> None:
    source = random.Random(1)
    for _ in range(further(40)):
        body = source.randbytes(source.choice((0, 1, 10, 300)))
        size = source.choice((None, 0, 1, len(body), len(body) + 1))
        headers = {} if size is None else {"Inference-Header-Content-Length": str(size)}
        path = source.choice((INFER, "/v2/repository/models/tanh/load", "/v2/logging", "/v2/models/tanh/infer"))
        answer = http.post(path, content=body, headers=headers)
        assert answer.status_code < 500
        assert DEFECT not in answer.text
    require_service(fuzzed)


def test_a_body_that_is_cut_off_anywhere_is_refused(http: httpx.Client) -> None:
    header = json.dumps({"inputs": [{**TENSOR, "parameters": {"binary_data_size": 16}}]}).encode()
    whole = header + struct.pack("<4f", 1, 2, 3, 4)
    headers = {"Inference-Header-Content-Length": str(len(header))}
    assert http.post(INFER, content=whole, headers=headers).status_code == 200
    for size in range(0, len(whole), 5):
        answer = http.post(INFER, content=whole[:size], headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]


@pytest.mark.parametrize("text", ["-1", "1e3", "", "0x10", "9" * 30, "12, 13"])
def test_a_header_length_that_is_none_is_refused(http: httpx.Client, text: str) -> None:
    body = json.dumps({"inputs": [{**TENSOR, "data": [1, 2, 3, 4]}]})
    answer = http.post(INFER, content=body, headers={"Inference-Header-Content-Length": text})
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"\0: \0\r\n\r\n",
        b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
    ids=["negative", "two", "enormous", "both", "no chunk", "NUL", "a long header"],
)
def test_heads_that_contradict_themselves_are_refused(fuzzed: Served, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=30) as connection:
        connection.sendall(POST + b"Connection: close\r\n" + head)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := connection.recv(4096):
                answer += chunk
        except ConnectionResetError:
            pass  # it was told so without a word
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    require_service(fuzzed)


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
def test_half_requests_keep_nobody_else_waiting(fuzzed: Served, half: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(60):
            waiting = stack.enter_context(socket.create_connection(("127.0.0.1", fuzzed.port), timeout=30))
            waiting.sendall(half)
        require_service(fuzzed)


def test_clients_that_leave_in_the_middle_of_a_body_are_nothing_to_log(fuzzed: Served) -> None:
    before = fuzzed.child.said()
    for half in HALVES.values():
        with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=30) as leaving:
            leaving.sendall(half)
    with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=30) as leaving:
        leaving.sendall(b"this is no HTTP\r\n\r\n")
        leaving.recv(4096)
    require_service(fuzzed)
    assert fuzzed.child.said() == before


def test_connections_to_grpc_that_say_nothing_or_nonsense_keep_nobody_waiting(fuzzed: Served) -> None:
    host, _, port = fuzzed.grpc.rpartition(":")
    with ExitStack() as stack:
        for number in range(60):
            waiting = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            waiting.sendall((b"", b"PRI * HTTP/2.0\r\n", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n")[number % 4])
        with grpc.insecure_channel(fuzzed.grpc) as channel:
            assert in_bytes(channel, "ServerLive")(b"", timeout=30) == b"\x08\x01"
    require_service(fuzzed)


def test_a_body_that_is_too_large_is_refused_before_it_has_come(fuzzed: Served, http: httpx.Client) -> None:
    answer = http.post(INFER, content=bytes(100_001))
    assert answer.status_code == 400
    assert answer.json() == {"error": "the body is longer than 100000 bytes, which --http-max-input-size allows"}
    with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=30) as connection:
        connection.sendall(POST + b"Content-Length: 100001\r\n\r\n")
        assert b" 400 " in connection.recv(4096)


def test_compressed_bodies_that_grow_too_large_are_refused(http: httpx.Client) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    assert len(bomb) < 100_000
    answer = http.post(INFER, content=bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400
    assert "longer than 100000 bytes" in answer.json()["error"]
