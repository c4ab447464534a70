"""tritonclient, unmodified: inferences."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal.inference.datatypes import DATATYPES
from tests.support.model_server import Served
from tests.support.served_models import LABELS, echo, sample
from tests.support.tritonclients import Triton, input_of, status_of

JSON_DATATYPES = [name for name in DATATYPES if name not in ("FP16", "BF16")]
PAIR = {"a": np.arange(4, dtype=np.float32), "b": np.ones(4, np.float32)}


def rows(count: int, start: float = 0.0) -> Mapping[str, Array]:
    """A batch for ``tanh``."""
    return {"x": np.linspace(start, start + 1, count * 8, dtype=np.float32).reshape(count, 8)}


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_comes_back_as_it_went(triton: Triton, datatype: str) -> None:
    given = sample(datatype)
    answer = triton.infer(echo(datatype), {"x": given}, request_id="7").as_numpy("y")
    assert answer.dtype == given.dtype
    np.testing.assert_array_equal(answer, given)


@pytest.mark.parametrize("datatype", JSON_DATATYPES)
def test_datatypes_come_back_by_json_too(served: Served, datatype: str) -> None:
    given = sample(datatype)
    if datatype == "BYTES":
        given = np.array([["", "käse", "a b", "\u2028"]], object)
    elif datatype in ("FP32", "FP64"):
        given = np.nan_to_num(given, posinf=4.0)
    with Triton("http", tritonclient.http, served.http) as client:
        outputs = [tritonclient.http.InferRequestedOutput("y", binary_data=False)]
        answer = client.client.infer(
            echo(datatype), client.inputs({"x": given}, binary_data=False), outputs=outputs, request_id="9"
        )
        assert "data" in answer.get_output("y")
        assert answer.get_response()["id"] == "9"
        np.testing.assert_array_equal(answer.as_numpy("y").reshape(given.shape), given)


def test_outputs_are_those_that_were_asked_for(triton: Triton) -> None:
    both = triton.infer("pair", PAIR)
    np.testing.assert_array_equal(both.as_numpy("sum"), [1, 2, 3, 4])
    np.testing.assert_array_equal(both.as_numpy("difference"), [-1, 0, 1, 2])
    one = triton.infer("pair", PAIR, ["difference"], model_version="1")
    assert one.as_numpy("sum") is None
    np.testing.assert_array_equal(one.as_numpy("difference"), [-1, 0, 1, 2])


def test_batches_of_several_clients_are_not_mixed_up(triton: Triton) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        with Triton(triton.name, triton.api, triton.address) as mine:
            for turn in range(25):
                given = rows(1 + (number + turn) % 4, start=number * 10 + turn)
                answer = mine.infer("tanh", given).as_numpy("y")
                if not np.allclose(answer, np.tanh(given["x"]), atol=1e-5):
                    wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_classes_come_highest_first_with_their_labels(triton: Triton) -> None:
    given = np.array([[0.5, 3, 1, 2], [4, 0, 0, 1]], np.float32)
    wanted = [triton.api.InferRequestedOutput("y", class_count=2)]
    answer = triton.client.infer("classes", triton.inputs({"x": given}), outputs=wanted).as_numpy("y")
    found = [[entry.decode().split(":") for entry in row] for row in answer]
    assert [[(float(v), int(i), label) for v, i, label in row] for row in found] == [
        [(3, 1, LABELS[1]), (2, 3, LABELS[3])],
        [(4, 0, LABELS[0]), (1, 3, LABELS[3])],
    ]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_messages_may_be_compressed(triton: Triton, algorithm: str) -> None:
    given = np.zeros((1000, 4), np.float32)
    options = {"compression_algorithm": algorithm}
    if triton.name == "http":
        options = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
    answer = triton.infer(echo("FP32"), {"x": given}, **options)
    np.testing.assert_array_equal(answer.as_numpy("y"), given)


@pytest.mark.parametrize("timeout", [10_000_000, 2**63 - 1])
def test_priority_timeout_and_other_parameters_are_taken(triton: Triton, timeout: int) -> None:
    answer = triton.infer("tanh", rows(2), priority=1, timeout=timeout, parameters={"note": "mine", "weight": 3})
    np.testing.assert_allclose(answer.as_numpy("y"), np.tanh(rows(2)["x"]), atol=1e-5)


@pytest.mark.parametrize("option", [{"priority": 99}, {"parameters": {"triton_mine": 1}}])
def test_wrong_parameters_are_refused_or_have_no_effect(triton: Triton, option: Mapping[str, Any]) -> None:
    if "priority" in option:
        assert triton.infer("tanh", rows(1), **option).as_numpy("y").shape == (1, 8)
        return
    with pytest.raises(InferenceServerException, match="reserved"):
        triton.infer("tanh", rows(1), **option)


def test_a_hundred_requests_in_flight_are_all_answered(triton: Triton) -> None:
    expected = {number: rows(1 + number % 3, start=number) for number in range(100)}
    answers: dict[int, Any] = {}
    if triton.name == "grpc":
        done = threading.Semaphore(0)

        def keep(number: int, result: Any, error: Any) -> None:
            answers[number] = error or result
            done.release()

        for number, given in expected.items():
            call = lambda result, error, number=number: keep(number, result, error)  # noqa: E731
            triton.client.async_infer("tanh", triton.inputs(given), call)
        for _ in expected:
            assert done.acquire(timeout=60)
    else:
        waiting = {n: triton.client.async_infer("tanh", triton.inputs(given)) for n, given in expected.items()}
        answers = {number: request.get_result() for number, request in waiting.items()}
    for number, given in expected.items():
        np.testing.assert_allclose(answers[number].as_numpy("y"), np.tanh(given["x"]), atol=1e-5)


@pytest.mark.parametrize("name", ["grpc", "http"])
def test_the_clients_for_asyncio(served: Served, name: str) -> None:
    api = {"grpc": tritonclient.grpc.aio, "http": tritonclient.http.aio}[name]
    plain = {"grpc": tritonclient.grpc, "http": tritonclient.http}[name]

    async def run() -> None:
        async with api.InferenceServerClient(getattr(served, name)) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("tanh")
            assert await client.get_server_metadata()
            assert await client.get_model_metadata("tanh")
            assert await client.get_model_config("tanh")
            assert await client.get_inference_statistics("tanh")
            assert await client.get_model_repository_index()
            calls = [client.infer("tanh", [input_of(plain, "x", rows(1, start)["x"])]) for start in range(20)]
            for start, answer in enumerate(await asyncio.gather(*calls)):
                np.testing.assert_allclose(answer.as_numpy("y"), np.tanh(rows(1, start)["x"]), atol=1e-5)
            with pytest.raises(InferenceServerException) as caught:
                await client.infer("nobody", [input_of(plain, "x", rows(1)["x"])])
            assert status_of(caught.value) in ("NOT_FOUND", "404")

    asyncio.run(run())
