"""Requests of one sequence share a state that stays on the device, for unmodified clients of both protocols."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import signal
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_client import connect
from tests.support.model_server import Devices, Served, addresses, devices, model_server
from tests.support.stateful_models import (
    BATCHED,
    CELL,
    CONTROLLED,
    GROWING,
    RUNNING,
    SHORT,
    STATELESS,
    SUM,
    TURNING,
    write_stateful_models,
)
from tests.support.tritonclients import Triton, input_of
from tests.support.waiting import wait_until

_APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
_AIO = {"grpc": tritonclient.grpc.aio, "http": tritonclient.http.aio}
_ids = count(1)
_ENDLESS = 1 << 62
"""Turns that take years."""


@pytest.fixture(scope="module", params=["alone", pytest.param("front workers", marks=pytest.mark.slow)])
def stateful(
    request: pytest.FixtureRequest, device_processes: Devices, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A framework with models that carry values from request to request."""
    repository = write_stateful_models(tmp_path_factory.mktemp("repository"))
    options = ["--allow-client-shm=true", *(["--front-workers", "2"] if request.param == "front workers" else [])]
    with model_server(device_processes, repository, *options) as process:
        yield process


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest, stateful: Served) -> Iterator[Triton]:
    with Triton(request.param, _APIS[request.param], getattr(stateful, request.param)) as found:
        yield found


def ones(*shape: int) -> Array:
    return np.ones(shape or (1, 3), np.float32)


def run(
    client: Triton, model: str, identifier: int | str, x: Array, start: bool = False, end: bool = False, **more: Any
) -> list[float]:
    """The output ``y`` of a request."""
    found = client.infer(model, {"x": x}, sequence_id=identifier, sequence_start=start, sequence_end=end, **more)
    values: list[float] = found.as_numpy("y").reshape(-1).tolist()
    return values


def refusal(client: Triton, *arguments: Any, **options: Any) -> str:
    with pytest.raises(InferenceServerException) as caught:
        run(client, *arguments, **options)
    return str(caught.value.message())


@pytest.fixture
def unused() -> int:
    return next(_ids)


def test_a_variable_is_carried_from_request_to_request(client: Triton, unused: int) -> None:
    other = next(_ids)
    assert run(client, SUM, unused, ones(3), start=True) == [11, 21, 31]
    assert run(client, SUM, unused, ones(3)) == [12, 22, 32]
    assert run(client, SUM, other, ones(3), start=True) == [11, 21, 31]
    assert run(client, SUM, unused, ones(3), end=True) == [13, 23, 33]
    assert run(client, SUM, other, ones(3), end=True) == [12, 22, 32]


def test_an_onnx_model_has_its_state_by_configuration(client: Triton, unused: int) -> None:
    assert run(client, RUNNING, unused, ones(), start=True) == [2, 3, 4]
    assert run(client, RUNNING, unused, ones(), end=True) == [3, 4, 5]


def test_a_state_grows_from_nothing(client: Triton, unused: int) -> None:
    other = next(_ids)
    for total in range(1, 12):
        assert run(client, GROWING, unused, ones(1, 1), start=total == 1) == [total]
    assert run(client, GROWING, other, 5 * ones(1, 1), start=True) == [5]
    assert run(client, GROWING, unused, ones(1, 1)) == [12]
    assert run(client, GROWING, other, ones(1, 1), end=True) == [6]
    assert run(client, GROWING, unused, ones(1, 1), start=True, end=True) == [1]


def test_identifiers_are_numbers_or_strings(client: Triton, unused: int) -> None:
    name = f"user-{unused}"
    assert run(client, RUNNING, name, ones(), start=True) == [2, 3, 4]
    assert run(client, RUNNING, 2**63 - unused, ones(), start=True, end=True) == [2, 3, 4]
    assert run(client, RUNNING, name, ones(), end=True) == [3, 4, 5]


def test_a_sequence_may_begin_anew(client: Triton, unused: int) -> None:
    for start, expected in ((True, 2), (False, 3), (True, 2), (False, 3)):
        assert run(client, RUNNING, unused, ones(), start=start)[0] == expected
    assert run(client, RUNNING, unused, ones(), end=True)[0] == 4


def test_a_request_that_fails_leaves_the_state_as_it_was(client: Triton, unused: int) -> None:
    run(client, RUNNING, unused, ones(), start=True)
    assert "unexpected shape for input 'x'" in refusal(client, RUNNING, unused, ones(2, 3))
    assert run(client, RUNNING, unused, ones(), end=True) == [3, 4, 5]


@pytest.mark.parametrize("model", [SUM, RUNNING])
def test_requests_outside_of_a_sequence_are_refused(client: Triton, unused: int, model: str) -> None:
    x = ones(3) if model == SUM else ones()
    with pytest.raises(InferenceServerException, match="must specify a non-zero or non-empty correlation ID"):
        client.infer(model, {"x": x})
    start = (
        f"inference request for sequence {unused} to model '{model}' must specify the START flag on the first request "
        "of the sequence"
    )
    assert start in refusal(client, model, unused, x)
    run(client, model, unused, x, start=True, end=True)
    assert start in refusal(client, model, unused, x)


def test_identifiers_have_limits(client: Triton) -> None:
    assert "has 129 bytes, expected 128" in refusal(client, RUNNING, "x" * 129, ones(), start=True)


def test_control_inputs_tell_the_model(client: Triton, unused: int) -> None:
    for start, end, expected in ((1, 0, [5, -1, 1]), (0, 0, [0, -1, 1]), (0, 1, [0, 1, 1])):
        found = client.infer(
            CONTROLLED, {"x": ones(1)}, sequence_id=unused, sequence_start=bool(start), sequence_end=bool(end)
        )
        assert found.as_numpy("told").tolist() == [*expected, unused]
    assert found.as_numpy("total").tolist() == [3]


def test_clients_see_neither_states_nor_control_inputs(client: Triton) -> None:
    for model in (SUM, RUNNING, CONTROLLED):
        shown = client.shown("get_model_metadata", model)
        assert [tensor["name"] for tensor in shown["inputs"]] == ["x"]
    with pytest.raises(InferenceServerException, match="unexpected inference input 'start'"):
        client.infer(CONTROLLED, {"x": ones(1), "start": ones(1)}, sequence_id=9, sequence_start=True)
    with pytest.raises(InferenceServerException, match="expected 1 inputs but got 0 inputs"):
        client.infer(CONTROLLED, {}, sequence_id=9, sequence_start=True)


def test_the_configuration_says_that_a_model_has_sequences(client: Triton) -> None:
    shown = client.shown("get_model_config", SUM)
    batching = shown.get("config", shown)["sequence_batching"]
    assert int(batching["max_sequence_idle_microseconds"]) == 60_000_000
    assert "direct" in batching
    assert [(state["input_name"], state["output_name"]) for state in batching["state"]] == [("sum", "sum/after")]


def test_requests_of_a_model_with_batches_are_one_item_each(client: Triton, unused: int) -> None:
    assert run(client, BATCHED, unused, ones(), start=True) == [1, 1, 1]
    assert "must specify batch-size 1" in refusal(client, BATCHED, unused, ones(2, 3))
    assert run(client, BATCHED, unused, ones(), end=True) == [2, 2, 2]


def test_an_output_that_is_computed_of_the_state_has_the_batch_axis(client: Triton, unused: int) -> None:
    shown = client.shown("get_model_metadata", CELL)
    assert [[int(n) for n in tensor["shape"]] for tensor in (*shown["inputs"], *shown["outputs"])] == [[-1, 3], [-1, 1]]
    assert run(client, CELL, unused, ones(), start=True) == [3]
    assert run(client, CELL, unused, ones(), end=True) == [6]


def test_a_sequence_beyond_the_candidates_waits_for_one_to_end(client: Triton) -> None:
    first, second, third = (next(_ids) for _ in range(3))
    for identifier in (first, second):
        run(client, BATCHED, identifier, ones(), start=True)

    async def scenario() -> None:
        async with _AIO[client.name].InferenceServerClient(client.address) as other:
            x = input_of(client.api, "x", ones())
            waiting = asyncio.ensure_future(
                other.infer(BATCHED, [x], sequence_id=third, sequence_start=True, sequence_end=True)
            )
            ended = await other.infer(BATCHED, [x], sequence_id=second, sequence_end=True)
            assert ended.as_numpy("y").tolist() == [[2, 2, 2]]
            assert (await waiting).as_numpy("y").tolist() == [[1, 1, 1]]

    asyncio.run(scenario())
    run(client, BATCHED, first, ones(), end=True)


def test_a_sequence_that_is_idle_ends(client: Triton, unused: int) -> None:
    run(client, SHORT, unused, ones(), start=True)

    def is_over() -> bool:
        try:
            run(client, SHORT, unused, ones())
        except InferenceServerException as error:
            return "must specify the START flag" in error.message()
        return False

    wait_until(is_over, "the sequence has ended")


def test_a_model_without_a_state_may_have_sequences(client: Triton, unused: int) -> None:
    assert run(client, STATELESS, unused, ones(), start=True) == [-1, -1, -1]
    assert run(client, STATELESS, unused, ones(), end=True) == [-1, -1, -1]


def test_sequences_over_a_stream(stateful: Served, unused: int) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    x = tritonclient.grpc.InferInput("x", [1, 3], "FP32")
    x.set_data_from_numpy(ones())
    with tritonclient.grpc.InferenceServerClient(stateful.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(4):
            client.async_stream_infer(
                RUNNING, [x], sequence_id=unused, sequence_start=number == 0, sequence_end=number == 3
            )
        found = [answers.get(timeout=60) for _ in range(4)]
    assert [error for _, error in found] == [None] * 4
    assert [result.as_numpy("y")[0, 0] for result, _ in found] == [2, 3, 4, 5]


def test_requests_that_are_sent_at_once_run_in_their_order(stateful: Served, unused: int) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    x = tritonclient.grpc.InferInput("x", [1, 3], "FP32")
    x.set_data_from_numpy(ones())
    with tritonclient.grpc.InferenceServerClient(stateful.grpc) as client:
        client.infer(RUNNING, [x], sequence_id=unused, sequence_start=True)
        for _ in range(8):
            client.async_infer(RUNNING, [x], lambda result, error: answers.put((result, error)), sequence_id=unused)
        found = [answers.get(timeout=60) for _ in range(8)]
        client.infer(RUNNING, [x], sequence_id=unused, sequence_end=True)
    assert [error for _, error in found] == [None] * 8
    assert sorted(result.as_numpy("y")[0, 0] for result, _ in found) == list(range(3, 11))


@pytest.mark.parametrize("name", ["grpc", "http"])
def test_the_clients_for_asyncio_have_sequences(stateful: Served, unused: int, name: str) -> None:
    other = next(_ids)
    x = input_of(_APIS[name], "x", ones())

    async def ask(client: Any, identifier: int, **flags: bool) -> float:
        answer = await client.infer(RUNNING, [x], sequence_id=identifier, **flags)
        return float(answer.as_numpy("y")[0, 0])

    async def scenario() -> None:
        async with _AIO[name].InferenceServerClient(getattr(stateful, name)) as client:
            started = [ask(client, identifier, sequence_start=True) for identifier in (unused, other)]
            assert await asyncio.gather(*started) == [2, 2]
            assert sorted(await asyncio.gather(*(ask(client, unused) for _ in range(8)))) == list(range(3, 11))
            ended = [ask(client, identifier, sequence_end=True) for identifier in (unused, other)]
            assert await asyncio.gather(*ended) == [11, 3]
            with pytest.raises(InferenceServerException, match="must specify the START flag"):
                await ask(client, unused)

    asyncio.run(scenario())


def test_tensors_of_a_sequence_may_lie_in_shared_memory(client: Triton, unused: int) -> None:
    key = f"nnhal_sequence_{os.getpid()}_{client.name}"
    region = shm.create_shared_memory_region(key, key, 24, create_only=True)
    try:
        shm.set_shared_memory_region(region, [ones()])
        client.client.register_system_shared_memory(key, key, 24)
        x, y = client.api.InferInput("x", [1, 3], "FP32"), client.api.InferRequestedOutput("y")
        x.set_shared_memory(key, 12)
        y.set_shared_memory(key, 12, 12)
        for number, expected in enumerate(([2, 3, 4], [3, 4, 5], [4, 5, 6])):
            client.client.infer(
                RUNNING,
                [x],
                outputs=[y],
                sequence_id=unused,
                sequence_start=number == 0,
                sequence_end=number == 2,
            )
            assert shm.get_contents_as_numpy(region, np.float32, [1, 3], 12).tolist() == [expected]
        client.client.unregister_system_shared_memory(key)
    finally:
        shm.destroy_shared_memory_region(region)


def turn(client: Triton, identifier: int, turns: int, **more: Any) -> float:
    answer = client.infer(TURNING, {"turns": np.array([turns], np.int64)}, sequence_id=identifier, **more)
    return float(answer.as_numpy("y")[0])


def test_a_run_that_misses_its_deadline_leaves_the_state_as_it_was(client: Triton, unused: int) -> None:
    assert turn(client, unused, 3, sequence_start=True) == 3
    with pytest.raises(InferenceServerException, match=r"(?i)deadline"):
        turn(client, unused, _ENDLESS, timeout=100_000)
    assert turn(client, unused, 2, sequence_end=True) == 5


def test_a_request_that_is_cancelled_in_a_sequence_leaves_the_state_as_it_was(stateful: Served, unused: int) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    turns = input_of(tritonclient.grpc, "turns", np.array([_ENDLESS], np.int64))
    with Triton("grpc", tritonclient.grpc, stateful.grpc) as client:
        assert turn(client, unused, 3, sequence_start=True) == 3
        sent = [
            client.client.async_infer(
                TURNING, [turns], lambda result, error: answers.put((result, error)), sequence_id=unused
            )
            for _ in range(2)
        ]
        for request in reversed(sent):  # first the one that waits for the other
            request.cancel()
            assert "Locally cancelled" in str(answers.get(timeout=60)[1])
        assert turn(client, unused, 2, sequence_end=True) == 5


def test_sequences_are_counted(stateful: Served, unused: int) -> None:
    with Triton("grpc", tritonclient.grpc, stateful.grpc) as client:
        run(client, RUNNING, unused, ones(), start=True)
        assert live(stateful) == 1
        run(client, RUNNING, unused, ones(), end=True)
        assert live(stateful) == 0


def live(served: Served) -> float:
    with urllib.request.urlopen(f"http://{addresses(served.child)['metrics']}/metrics") as answer:
        text = answer.read().decode()
    (found,) = re.findall(rf'^nnhal_sequences{{.*model="{RUNNING}".*}} (\S+)$', text, re.MULTILINE)
    return float(found)


def test_a_native_binding_has_a_state_of_its_own(stateful: Served) -> None:
    with connect(stateful.endpoint.directory) as framework, framework.open(SUM) as model, model.bind() as binding:
        binding.inputs["x"][...] = 1
        for expected in (11, 12, 13):
            binding.run()
            assert binding.outputs["y"][0] == expected
        binding.reset_state()
        binding.run()
        assert binding.outputs["y"][0] == 11


def test_a_binding_over_bytes_is_a_sequence(stateful: Served) -> None:
    with (
        connect(f"grpc://{stateful.grpc}", native=False) as server,
        server.open(SUM) as model,
        model.bind() as one,
        model.bind() as other,
    ):
        for binding in (one, other):
            binding.inputs["x"][...] = 1
            for expected in (11, 12):
                binding.run()
                assert binding.outputs["y"][0] == expected
        one.reset_state()
        one.run()
        assert one.outputs["y"][0] == 11
        with pytest.raises(HalError, match="non-zero or non-empty correlation ID"):
            model.run({"x": ones(3)})


def test_sequences_end_with_the_version_that_served_them(stateful: Served, unused: int) -> None:
    with Triton("grpc", tritonclient.grpc, stateful.grpc) as client:
        run(client, RUNNING, unused, ones(), start=True)
        client.client.unload_model(RUNNING)
        client.client.load_model(RUNNING)
        assert "must specify the START flag" in refusal(client, RUNNING, unused, ones())
        assert run(client, RUNNING, unused, ones(), start=True, end=True) == [2, 3, 4]


@pytest.mark.slow
def test_a_state_that_died_with_its_device_is_missed_once(tmp_path: Path) -> None:
    with (
        devices() as over,
        model_server(over, write_stateful_models(tmp_path)) as served,
        Triton("grpc", tritonclient.grpc, served.grpc) as client,
    ):
        for identifier in (1, "other"):
            assert run(client, SUM, identifier, ones(3), start=True) == [11, 21, 31]
        os.kill(over.pids["cpu_acc"], signal.SIGKILL)
        for identifier in (1, "other"):
            name = f"sequence {identifier} of model '{SUM}'"
            lost = refusal(client, SUM, identifier, ones(3))
            assert lost == f"{name} is over: its state was lost with cpu_acc; start it again"
            assert "must specify the START flag" in refusal(client, SUM, identifier, ones(3))
        assert run(client, SUM, 1, ones(3), start=True) == [11, 21, 31]
        assert run(client, SUM, 1, ones(3), end=True) == [12, 22, 32]
