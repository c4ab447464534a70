"""The Python calls that a small inference costs, over both protocols: they are most of what it costs."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal.inference.grpc_service_pb2 import ModelInferResponse
from tests.support.http2_client import http2_client, message
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import onnx_file, write
from tests.support.served_models import echo, identity_file
from tests.support.tritonclients import Triton, input_of
from tests.support.v2 import raw_request
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.slow
COUNTED = Path(__file__).parents[2] / "support/counted"
REQUESTS = 300
ATTEMPTS = 20
GIVEN = np.linspace(-1, 1, 64, dtype=np.float32)
EXPECTED = np.maximum(GIVEN, 0)
INFER = b"/inference.GRPCInferenceService/ModelInfer"
Infer: TypeAlias = Callable[[str, Array, str], Array]
"""Has a model compute an output for an input, in a request with an identifier."""


class Calls(NamedTuple):
    """The calls that each request has made in the loop."""

    made: int
    files: frozenset[str]


class Counted(NamedTuple):
    """A framework that counts its calls, and the folder where it tells them."""

    served: Served
    folder: Path

    def take(self) -> Calls:
        """Return the calls since the last question. What most requests did not do, such as timers, is left out."""
        told = self.folder / str(self.served.pid)
        os.kill(self.served.pid, signal.SIGUSR2)
        wait_until(told.exists, "the calls are told")
        rows = json.loads(told.read_text())
        told.unlink()
        each = [(file, round(count / REQUESTS)) for thread, file, _, _, count in rows if thread == "serving-loop"]
        return Calls(sum(count for _, count in each), frozenset(file for file, count in each if count))


@pytest.fixture(scope="module")
def counted(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    repository, folder = tmp_path_factory.mktemp("repository"), tmp_path_factory.mktemp("calls")
    write(repository, "relu", {"1/model.onnx": onnx_file("Relu", (64,))})
    write(repository, "open", {"1/model.onnx": onnx_file("Relu", ("n", 64))})
    for datatype in ("BOOL", "BYTES"):
        write(repository, echo(datatype), {"1/model.onnx": identity_file(datatype)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(COUNTED), *filter(None, [os.environ.get("PYTHONPATH")])]))
        patch.setenv("NNHAL_TEST_CALLS", str(folder))
        with model_server(device_processes, repository, zygote=None) as served:
            yield Counted(served, folder)


@contextmanager
def grpc_client(served: Served) -> Iterator[Infer]:
    with http2_client(served.grpc) as client:

        def infer(model: str, given: Array, request_id: str) -> Array:
            request = raw_request(model, x=given)
            request.id = request_id
            answered = client.answer(client.request(INFER, data=message(request.SerializeToString())))
            answer = ModelInferResponse.FromString(answered.data[5:])
            assert answer.id == request_id
            return np.frombuffer(answer.raw_output_contents[0], np.float32)

        yield infer


@contextmanager
def http_client(served: Served) -> Iterator[Infer]:
    host, _, port = served.http.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:

        def infer(model: str, given: Array, request_id: str) -> Array:
            tensor = input_of(tritonclient.http, "x", given)
            body, json_size = tritonclient.http.InferenceServerClient.generate_request_body(
                [tensor], request_id=request_id
            )
            lines = "Host: localhost", f"Content-Length: {len(body)}", f"Inference-Header-Content-Length: {json_size}"
            head = "\r\n".join([f"POST /v2/models/{model}/infer HTTP/1.1", *lines, "", ""])
            connection.sendall(head.encode() + body)
            response = HTTPResponse(connection)
            response.begin()
            content, size = response.read(), int(response.headers["Inference-Header-Content-Length"])
            assert json.loads(content[:size]).get("id", "") == request_id
            return np.frombuffer(content[size:], np.float32)

        yield infer


def calls_of_requests(counted: Counted, protocol: str, model: str = "relu", request_id: str = "") -> Calls:
    """The calls of requests that have come before, but for their identifiers. Each comes in one piece: how many pieces
    the kernel makes of what clients send depends on how busy the machine is.
    """
    given = GIVEN if model == "relu" else GIVEN.reshape(1, 64)
    with {"grpc": grpc_client, "http": http_client}[protocol](counted.served) as infer:
        for number in range(2 * REQUESTS):
            if number == REQUESTS:
                counted.take()
            answer = infer(model, given, request_id and f"{request_id}{number:04}")
            np.testing.assert_array_equal(answer, EXPECTED)
        return counted.take()


def require_few_calls(
    counted: Counted, protocol: str, most: int, files: int, model: str = "relu", request_id: str = ""
) -> None:
    """Fail unless requests come to make so few calls. What is prepared beside them may take long on a busy machine."""
    for _ in range(ATTEMPTS):
        got = calls_of_requests(counted, protocol, model, request_id)
        if 0 < got.made <= most and len(got.files) <= files:
            return
    raise AssertionError(f"{got.made} calls in {sorted(got.files)}, expected at most {most} in {files} files")


@pytest.mark.parametrize(("protocol", "calls", "files"), [("grpc", 100, 37), ("http", 100, 36)])
def test_a_request_that_came_before_makes_few_calls(counted: Counted, protocol: str, calls: int, files: int) -> None:
    require_few_calls(counted, protocol, calls, files)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_an_identifier_of_its_own_makes_no_request_a_new_one(counted: Counted, protocol: str) -> None:
    require_few_calls(counted, protocol, 104, 38, request_id="r")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_open_dimensions_are_not_checked_anew(counted: Counted, protocol: str) -> None:
    require_few_calls(counted, protocol, 125, 42, model="open")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_nothing_of_a_request_outlasts_the_model_that_checked_it(counted: Counted, protocol: str) -> None:
    api, repository = {"grpc": tritonclient.grpc, "http": tritonclient.http}[protocol], counted.served.repository
    name = f"changing_{protocol}"
    with Triton(protocol, api, getattr(counted.served, protocol)) as client:
        for operation, expected in (("Relu", EXPECTED), ("Neg", -GIVEN)):
            write(repository, name, {"1/model.onnx": onnx_file(operation, (64,))})
            client.client.load_model(name)
            for _ in range(3):
                np.testing.assert_array_equal(client.infer(name, {"x": GIVEN}).as_numpy("y"), expected)
        write(repository, name, {"1/model.onnx": onnx_file("Neg", (32,))})
        client.client.load_model(name)
        with pytest.raises(InferenceServerException, match=r"unexpected shape for input 'x'.*Expected \[32\]"):
            client.infer(name, {"x": GIVEN})


@pytest.mark.parametrize(
    ("datatype", "right", "wrong", "message"),
    [
        ("BOOL", np.ones((1, 4), np.bool_), np.full((1, 4), 2, np.uint8).view(np.bool_), "neither 0 nor 1"),
        ("BYTES", np.full((1, 4), b"ab", object), np.full((1, 4), b"\xff\xfe", object), "is not UTF-8"),
    ],
)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_elements_that_may_be_wrong_are_looked_at_each_time(
    counted: Counted, protocol: str, datatype: str, right: Array, wrong: Array, message: str
) -> None:
    api = {"grpc": tritonclient.grpc, "http": tritonclient.http}[protocol]
    with Triton(protocol, api, getattr(counted.served, protocol)) as client:
        for _ in range(3):
            np.testing.assert_array_equal(client.infer(echo(datatype), {"x": right}).as_numpy("y"), right)
        with pytest.raises(InferenceServerException, match=message):
            client.infer(echo(datatype), {"x": wrong})
