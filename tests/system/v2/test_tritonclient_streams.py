"""tritonclient, unmodified: streams, and requests that are given up."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from tests.support.model_server import Served
from tests.support.served_models import sample
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import settled, wait_until

Answers = queue.Queue[tuple[Any, Any]]
SLOW = np.eye(512, dtype=np.float32)
"""For ``powers``: hundreds of milliseconds at least, wherever it runs."""


@pytest.fixture
def grpc_client(served: Served) -> Iterator[Triton]:
    with Triton("grpc", tritonclient.grpc, served.grpc) as client:
        yield client


@contextmanager
def streaming(triton: Triton, **options: Any) -> Iterator[Answers]:
    answers: Answers = queue.Queue()
    triton.client.start_stream(lambda result, error: answers.put((result, error)), **options)
    try:
        yield answers
    finally:
        triton.client.stop_stream()


def failures_of(triton: Triton, model: str) -> int:
    """Return how many requests of a model have failed, those that were given up among them."""
    (entry,) = triton.shown("get_inference_statistics", model)["model_stats"]
    return int(entry["inference_stats"].get("fail", {}).get("count", 0))


def test_a_stream_answers_in_its_order(grpc_client: Triton) -> None:
    with streaming(grpc_client) as answers:
        for number in range(50):
            given = np.full((1, 4), number, np.int32)
            grpc_client.client.async_stream_infer(
                "echo_int32", grpc_client.inputs({"x": given}), request_id=f"{number}"
            )
        for number in range(50):
            result, error = answers.get(timeout=30)
            assert error is None
            assert result.get_response().id == str(number)
            assert (result.as_numpy("y") == number).all()


def test_a_stream_goes_on_after_an_error(grpc_client: Triton) -> None:
    good = grpc_client.inputs({"x": sample("FP32")})
    with streaming(grpc_client) as answers:
        grpc_client.client.async_stream_infer("nobody", good, request_id="bad")
        grpc_client.client.async_stream_infer("echo_fp32", good, request_id="good")
        _, error = answers.get(timeout=30)
        assert "nobody" in error.message()
        result, error = answers.get(timeout=30)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("y"), sample("FP32"))


def test_each_response_is_the_last_of_its_request(grpc_client: Triton) -> None:
    with streaming(grpc_client) as answers:
        given = grpc_client.inputs({"x": sample("FP32")})
        grpc_client.client.async_stream_infer("echo_fp32", given, enable_empty_final_response=True)
        result, error = answers.get(timeout=30)
        assert error is None
        assert result.get_response().parameters["triton_final_response"].bool_param


def test_a_stream_may_ask_for_statuses(grpc_client: Triton) -> None:
    with streaming(grpc_client, headers={"triton_grpc_error": "true"}) as answers:
        grpc_client.client.async_stream_infer("nobody", grpc_client.inputs({"x": sample("FP32")}))
        _, error = answers.get(timeout=30)
        assert status_of(error) == "NOT_FOUND"


def test_a_stream_of_sequences_passes_their_parameters(grpc_client: Triton) -> None:
    with streaming(grpc_client) as answers:
        for number, (start, end) in enumerate(((True, False), (False, False), (False, True))):
            given = np.full((1, 4), number, np.int32)
            grpc_client.client.async_stream_infer(
                "echo_int32", grpc_client.inputs({"x": given}), sequence_id=5, sequence_start=start, sequence_end=end
            )
        for number in range(3):
            result, error = answers.get(timeout=30)
            assert error is None
            assert (result.as_numpy("y") == number).all()


def test_a_client_s_deadline_ends_its_request(grpc_client: Triton) -> None:
    before = failures_of(grpc_client, "powers")

    def is_given_up() -> bool:
        with pytest.raises(InferenceServerException) as caught:
            grpc_client.infer("powers", {"x": SLOW}, client_timeout=0.05)
        assert status_of(caught.value) == "DEADLINE_EXCEEDED"
        return failures_of(grpc_client, "powers") > before  # on a busy host it may not have reached the model

    wait_until(is_given_up, "the server has given one up")


def test_a_request_may_be_cancelled(grpc_client: Triton) -> None:
    before = settled(lambda: failures_of(grpc_client, "powers"))  # those of other tests are counted
    answers: Answers = queue.Queue()
    context = grpc_client.client.async_infer(
        "powers", grpc_client.inputs({"x": SLOW}), lambda result, error: answers.put((result, error))
    )
    context.cancel()
    _, error = answers.get(timeout=30)
    assert status_of(error) == "CANCELLED"
    assert grpc_client.infer("powers", {"x": np.eye(2, dtype=np.float32)}).as_numpy("y").shape == (2, 2)
    assert failures_of(grpc_client, "powers") in (before, before + 1)  # it may not have reached the model


def test_a_stream_may_be_cancelled(grpc_client: Triton) -> None:
    answers: Answers = queue.Queue()
    grpc_client.client.start_stream(lambda result, error: answers.put((result, error)))
    grpc_client.client.async_stream_infer("powers", grpc_client.inputs({"x": SLOW}))
    grpc_client.client.stop_stream(cancel_requests=True)
    _, error = answers.get(timeout=30)
    assert status_of(error) == "CANCELLED"


def test_clients_that_leave_in_the_middle_leave_their_streams_free(served: Served, grpc_client: Triton) -> None:
    for _ in range(40):  # more than may be open at a time
        answers: Answers = queue.Queue()
        with Triton("grpc", tritonclient.grpc, served.grpc) as leaving:
            leaving.client.start_stream(lambda result, error, to=answers: to.put((result, error)))
            leaving.client.async_stream_infer("echo_fp32", leaving.inputs({"x": sample("FP32")}))
            assert answers.get(timeout=30)[1] is None
            leaving.client.stop_stream(cancel_requests=True)
    with streaming(grpc_client) as answers:
        grpc_client.client.async_stream_infer("echo_fp32", grpc_client.inputs({"x": sample("FP32")}))
        assert answers.get(timeout=30)[1] is None
