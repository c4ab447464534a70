"""The memory that the bodies of all requests share."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from nnhal.arrays import Array
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceRequest
from tests.service.v2.http.conftest import Served, serving
from tests.support.v2 import FakeModel
from tests.support.waiting import wait_until

LIMIT = 300_000
PATH = "/v2/models/echo/infer"
RAW = {"Inference-Header-Content-Length": "0"}
LOAD = "/v2/repository/models/m/load"


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(FakeModel(), budget=RequestMemoryBudget(LIMIT)) as front:
        yield front


def post(served: Served, size: int) -> httpx.Response:
    """A request with a body of ``size`` bytes."""
    return served.client.post(PATH, content=bytes(size), headers=RAW)


def refusal(response: httpx.Response) -> str:
    assert response.status_code == 429, response.text
    message = response.json()["error"]
    assert isinstance(message, str)
    return message


def test_a_body_that_is_larger_than_all_may_be_is_refused(served: Served) -> None:
    message = refusal(post(served, LIMIT + 4))
    assert message.endswith(f"all together may hold {LIMIT}, which --request-memory allows")
    assert served.model.requests == []
    for _ in range(3):
        assert post(served, LIMIT).status_code == 200


def test_what_decompression_makes_of_a_body_counts(served: Served) -> None:
    packed = gzip.compress(bytes(LIMIT))
    headers = {**RAW, "Content-Encoding": "gzip"}
    assert f"may hold {LIMIT}" in refusal(served.client.post(PATH, content=packed, headers=headers))
    packed = gzip.compress(bytes(LIMIT - 4000))
    for _ in range(3):
        assert served.client.post(PATH, content=packed, headers=headers).status_code == 200


def test_a_body_of_many_pieces_is_what_it_was() -> None:
    content = bytes(range(256)) * 4096  # one piece exactly, at which the decompressor may have more to give
    with serving(FakeModel()) as served:
        for length in (len(content), len(content) - 4, 4):
            packed = gzip.compress(content[:length])
            response = served.client.post(PATH, content=packed, headers={**RAW, "Content-Encoding": "gzip"})
            assert response.status_code == 200
            assert to_array(served.model.requests[-1].inputs["x"]).tobytes() == content[:length]


def test_a_request_holds_its_body_until_it_is_answered() -> None:
    running, go_on = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        running.set()
        go_on.wait(30)
        return {}

    with serving(FakeModel(wait), budget=RequestMemoryBudget(LIMIT)) as served, ThreadPoolExecutor(1) as other:
        first = other.submit(post, served, LIMIT - 400)
        assert running.wait(30)
        try:
            assert f"while others hold {LIMIT - 400};" in refusal(post(served, 404))
        finally:
            go_on.set()
        assert first.result().status_code == 200
        assert post(served, LIMIT).status_code == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_gives_its_bytes_back() -> None:
    budget = RequestMemoryBudget(LIMIT)
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LIMIT}\r\n\r\n".encode()
    with serving(FakeModel(), budget=budget) as served:
        url = served.client.base_url
        for _ in range(3):
            with closing(socket.create_connection((url.host, url.port or 0))) as connection:
                connection.sendall(head + bytes(LIMIT - 400))
                wait_until(lambda: budget.held == LIMIT - 400, "what has come of the body is held")
                assert f"while others hold {LIMIT - 400};" in refusal(post(served, 404))
            wait_until(lambda: post(served, LIMIT).status_code == 200, "all of it is given back")


def test_bodies_of_other_requests_count_too(served: Served) -> None:
    body = b'{"parameters": {"config": "%s"}}'
    assert f"may hold {LIMIT}" in refusal(served.client.post(LOAD, content=body % (b" " * LIMIT)))
    assert served.repository.calls == []
    for _ in range(3):
        assert served.client.post(LOAD, content=body % (b" " * (LIMIT - 400))).status_code == 200
    assert post(served, LIMIT).status_code == 200
