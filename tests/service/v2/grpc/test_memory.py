"""The memory that the messages of all requests share."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from grpc import RpcError, StatusCode

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.requests.request import InferenceRequest
from tests.support.v2 import FakeModel, infer, raw_request, streamed_in_bytes
from tests.support.v2_front import Served, serving

LIMIT = 100_000
LARGE, TOO_LARGE = (raw_request(x=np.zeros(count, np.float32)) for count in (LIMIT // 5, LIMIT))


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    with serving(short_path, FakeModel(), budget=RequestMemoryBudget(LIMIT)) as front:
        yield front


def refusal(served: Served, request: wire.ModelInferRequest) -> str:
    with pytest.raises(RpcError) as got:
        infer(served.channel, request)
    assert got.value.code() == StatusCode.RESOURCE_EXHAUSTED
    return got.value.details() or ""


def test_a_message_that_is_larger_than_all_may_be_is_refused(served: Served) -> None:
    assert refusal(served, TOO_LARGE) == (
        f"the request holds {TOO_LARGE.ByteSize()} bytes or more; all together may hold {LIMIT}, "
        "which --request-memory allows"
    )
    assert served.model.requests == []
    for _ in range(3):
        infer(served.channel, LARGE)


def test_a_request_holds_its_message_until_it_is_answered(short_path: Path) -> None:
    running, go_on = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        running.set()
        go_on.wait(30)
        return {}

    model, budget = FakeModel(wait), RequestMemoryBudget(LIMIT)
    with serving(short_path, model, budget=budget) as served, ThreadPoolExecutor(1) as other:
        first = other.submit(infer, served.channel, LARGE)
        assert running.wait(30)
        try:
            assert f"while others hold {LARGE.ByteSize()};" in refusal(served, LARGE)
        finally:
            go_on.set()
        first.result()
        infer(served.channel, LARGE)


def test_a_request_that_is_refused_or_fails_gives_its_bytes_back(served: Served) -> None:
    unknown = raw_request("other", x=np.zeros(LIMIT // 5, np.float32))
    for _ in range(3):
        with pytest.raises(RpcError, match="unknown model"):
            infer(served.channel, unknown)
    infer(served.channel, LARGE)


def test_a_stream_goes_on_after_a_request_that_was_too_large(served: Served) -> None:
    requests = [request.SerializeToString() for request in (LARGE, TOO_LARGE, LARGE, LARGE)]
    answers = streamed_in_bytes(served.channel)(iter(requests), timeout=30, wait_for_ready=True)
    errors = [wire.ModelStreamInferResponse.FromString(answer).error_message for answer in answers]
    assert [bool(error) for error in errors] == [False, True, False, False]
    assert errors[1].endswith(f"all together may hold {LIMIT}, which --request-memory allows")


def test_a_stream_that_waits_for_its_next_request_holds_nothing(served: Served) -> None:
    requests: queue.Queue[bytes | None] = queue.Queue()
    requests.put(LARGE.SerializeToString())
    answers = iter(streamed_in_bytes(served.channel)(iter(requests.get, None), timeout=30, wait_for_ready=True))
    next(answers)
    infer(served.channel, LARGE)
    requests.put(None)
    assert list(answers) == []
