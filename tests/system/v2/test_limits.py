"""Memory of requests and number of models, by options of the server."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_client import connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import wait_until

MEMORY = 100_000
APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
EXHAUSTED = {"grpc": "RESOURCE_EXHAUSTED", "http": "429"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        write(tmp_path, name, {"1/model.onnx": onnx_file()})
    return tmp_path


@pytest.fixture
def limited(device_processes: Devices, repository: Path) -> Iterator[Served]:
    (repository / "two").rename(repository.parent / "two")
    options = ("--max-models", "1", "--request-memory", str(MEMORY))
    with model_server(device_processes, repository, *options) as served:
        (repository.parent / "two").rename(repository / "two")
        yield served


@pytest.fixture(params=APIS)
def triton(request: pytest.FixtureRequest, limited: Served) -> Iterator[Triton]:
    with Triton(request.param, APIS[request.param], getattr(limited, request.param)) as client:
        yield client


def test_requests_hold_no_more_than_they_may(triton: Triton) -> None:
    with pytest.raises(InferenceServerException) as caught:
        triton.infer("one", {"x": np.zeros((MEMORY // 32, 8), np.float32)})
    assert status_of(caught.value) == EXHAUSTED[triton.name]
    assert f"all together may hold {MEMORY}, which --request-memory allows" in caught.value.message()
    rows = np.repeat(numbers(), MEMORY // 64, 0)
    for _ in range(3):
        np.testing.assert_allclose(triton.infer("one", {"x": rows}).as_numpy("y"), np.tanh(rows), atol=1e-5)


def test_models_are_no_more_than_they_may_be(triton: Triton) -> None:
    client = triton.client
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("two")
    assert status_of(caught.value) == EXHAUSTED[triton.name]
    assert "all together may have 1, which --max-models allows" in caught.value.message()
    client.load_model("one")
    np.testing.assert_allclose(triton.infer("one", {"x": numbers()}).as_numpy("y"), np.tanh(numbers()), atol=1e-5)
    client.unload_model("one")
    client.load_model("two")
    assert client.is_model_ready("two")


def test_of_too_many_models_at_the_start_those_that_there_is_room_for_are_served(
    device_processes: Devices, repository: Path
) -> None:
    with (
        model_server(device_processes, repository, "--max-models", "1") as served,
        closing(tritonclient.http.InferenceServerClient(served.http)) as client,
    ):
        rows = client.get_model_repository_index()
        assert sorted(row["state"] for row in rows) == ["READY", "UNAVAILABLE"]
        (reason,) = [row["reason"] for row in rows if row["state"] == "UNAVAILABLE"]
        assert "all together may have 1, which --max-models allows" in reason
        assert not client.is_server_ready()


def test_a_native_client_loads_no_more_models_than_it_may(limited: Served) -> None:
    file = limited.repository / "one/1/model.onnx"
    with connect(limited.endpoint.directory) as session, connect(limited.endpoint.directory) as other:
        model = session.open("one")
        for load in (partial(session.load, file), partial(session.open, "one")):
            with pytest.raises(HalError) as caught:
                load()
            assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
            assert caught.value.message == "the session has 1 models loaded, which is all that --max-models allows"
        assert other.open("one").run({"x": numbers()})
        model.unload()
        assert session.open("one").run({"x": numbers()})


def test_what_one_front_holds_the_other_cannot(limited: Served) -> None:
    head = f"POST /v2/models/one/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MEMORY}\r\n\r\n".encode()
    with Triton("grpc", tritonclient.grpc, limited.grpc) as triton:
        with closing(socket.create_connection(("127.0.0.1", limited.port), 60)) as half:
            half.sendall(head + bytes(MEMORY - 400))
            # The call may come before the last piece of the body, which is then what is refused.
            wait_until(lambda: not has_room(triton) or is_answered(half), "one of them is refused")
        wait_until(lambda: has_room(triton), "the bytes of the client that has left are given back")


def has_room(triton: Triton) -> bool:
    """Return whether a request of half of the memory is served."""
    try:
        triton.infer("one", {"x": np.repeat(numbers(), MEMORY // 64, 0)})
    except InferenceServerException as error:
        assert status_of(error) == "RESOURCE_EXHAUSTED"
        return False
    return True


def is_answered(connection: socket.socket) -> bool:
    """Return whether a request has been refused before it was whole."""
    return bool(select.select([connection], [], [], 0)[0]) and connection.recv(65536).startswith(b"HTTP/1.1 429 ")
