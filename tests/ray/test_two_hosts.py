"""Clients of the protocol at two hosts."""

from __future__ import annotations

import queue
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from tests.ray.ray_cluster import RayCluster
from tests.support.repositories import onnx_file, write
from tests.support.served_models import sample
from tests.support.stateful_models import SUM
from tests.support.tritonclients import Triton, input_of
from tests.support.waiting import wait_until

MEBIBYTES_16 = 1 << 24
INVALID = ("StatusCode.INVALID_ARGUMENT", "400")


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that have all models."""
    cluster.deploy(model_repository=str(models), accelerators={"npu": 1}, min_hosts=2, max_hosts=2)
    return cluster


def test_hosts_are_on_different_nodes(hosts: RayCluster) -> None:
    assert len({replica["node"] for replica in hosts.replicas()}) == 2


@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
def test_tensors_come_back_as_they_are(triton: Triton, datatype: str) -> None:
    sent = sample(datatype)
    for _ in range(4):
        result = triton.infer(f"echo_{datatype.lower()}", {"x": sent})
        assert np.array_equal(result.as_numpy("y"), sent)


def test_a_large_tensor_comes_back_as_it_is(triton: Triton) -> None:
    sent = np.arange(MEBIBYTES_16 // 4, dtype=np.float32).reshape(-1, 4)
    assert np.array_equal(triton.infer("echo_fp32", {"x": sent}).as_numpy("y"), sent)


def test_models_that_join_requests_into_batches_run_too(triton: Triton) -> None:
    sent = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    assert np.allclose(triton.infer("tanh", {"x": sent}).as_numpy("y"), np.tanh(sent), atol=1e-5)


def test_classes_are_given_on_request(triton: Triton) -> None:
    wanted = [triton.api.InferRequestedOutput("y", class_count=1)]
    tensors = triton.inputs({"x": np.array([[0, 3, 1, 2]], np.float32)})
    result = triton.client.infer("classes", tensors, outputs=wanted)
    assert result.as_numpy("y").tolist() == [[b"3.000000:1:dog"]]


def test_both_hosts_run_requests(hosts: RayCluster, triton: Triton) -> None:
    before = hosts.counts("echo_fp64")

    def both_have_answered() -> bool:
        triton.infer("echo_fp64", {"x": sample("FP64")})
        return all(count > before[replica] for replica, count in hosts.counts("echo_fp64").items())

    wait_until(both_have_answered, "both hosts have answered", 60)


@pytest.mark.parametrize(
    ("model", "array", "status", "text"),
    [
        ("nowhere", np.zeros((1, 4), np.float32), ("StatusCode.NOT_FOUND", "404"), "unknown model: 'nowhere'"),
        (
            "echo_fp32",
            np.zeros((1, 5), np.float32),
            ("StatusCode.INVALID_ARGUMENT", "400"),
            r"Expected \[-1,4\], got \[1,5\]",
        ),
        ("echo_fp32", np.zeros((1, 4), np.int32), ("StatusCode.INVALID_ARGUMENT", "400"), "INT32"),
    ],
    ids=["unknown", "shape", "datatype"],
)
def test_a_refusal_is_the_framework_s_own(
    triton: Triton, model: str, array: Array, status: tuple[str, str], text: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        triton.infer(model, {"x": array})
    assert caught.value.status() == status[triton.name == "http"]
    assert re.search(text, caught.value.message()), caught.value.message()


def test_a_stream_is_answered_in_order_and_goes_on_after_a_refusal(hosts: RayCluster) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{hosts.head.grpc}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        tensors = [input_of(tritonclient.grpc, "x", sample("FP32"))]
        for number, model in enumerate(["echo_fp32", "nowhere", "echo_fp32"]):
            client.async_stream_infer(model, tensors, request_id=str(number))
        found = [answers.get(timeout=30) for _ in range(3)]
        client.stop_stream()
    first, refused, last = found
    assert "unknown model: 'nowhere'" in str(refused[1])
    for expected, (result, error) in (("0", first), ("2", last)):
        assert error is None
        response = result.get_response()
        assert response.id == expected
        assert response.parameters["triton_final_response"].bool_param


def test_a_sequence_outside_a_stream_is_refused_with_the_way_out(triton: Triton) -> None:
    packed = [{}] if triton.name == "grpc" else [{}, {"request_compression_algorithm": "gzip"}]
    for how in packed:
        with pytest.raises(InferenceServerException, match=r"in one stream .* or serve with max_hosts=1") as caught:
            triton.infer(SUM, {"x": np.ones(3, np.float32)}, sequence_id=7, sequence_start=True, **how)
        assert caught.value.status() == {"grpc": "StatusCode.UNIMPLEMENTED", "http": "501"}[triton.name]


def test_a_sequence_keeps_its_state_in_the_stream_that_starts_it_and_in_no_other(hosts: RayCluster) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    tensors = [input_of(tritonclient.grpc, "x", np.ones(3, np.float32))]
    for _ in range(2):
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{hosts.head.grpc}") as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for turn in range(4):
                client.async_stream_infer(SUM, tensors, sequence_id=7, sequence_start=not turn)
            found = [answers.get(timeout=30) for _ in range(4)]
            assert [float(result.as_numpy("y")[0]) for result, _ in found] == [11, 12, 13, 14]
            client.stop_stream()
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer(SUM, tensors, sequence_id=7)
            _, refused = answers.get(timeout=30)
            assert "sequence 7 has not started in this stream" in str(refused)


def test_shared_memory_is_refused_with_the_reason(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="shared memory is disabled") as caught:
        triton.client.register_system_shared_memory("region", "/region", 64)
    assert caught.value.status() == {"grpc": "StatusCode.UNIMPLEMENTED", "http": "501"}[triton.name]
    tensor = triton.api.InferInput("x", [2, 4], "FP32")
    tensor.set_shared_memory("region", 32)
    with pytest.raises(InferenceServerException, match="shared memory is disabled"):
        triton.client.infer("echo_fp32", [tensor])


def test_a_model_that_is_unloaded_and_loaded_is_so_on_all_hosts(triton: Triton) -> None:
    sent = sample("INT16")
    assert np.array_equal(triton.infer("echo_int16", {"x": sent}).as_numpy("y"), sent)
    triton.client.unload_model("echo_int16")
    assert not any(triton.client.is_model_ready("echo_int16") for _ in range(6))
    with pytest.raises(InferenceServerException, match="echo_int16"):
        triton.infer("echo_int16", {"x": sent})
    triton.client.load_model("echo_int16")
    for _ in range(6):
        assert triton.client.is_model_ready("echo_int16")
        assert np.array_equal(triton.infer("echo_int16", {"x": sent}).as_numpy("y"), sent)


def test_a_model_that_is_new_in_the_repository_is_loaded_on_all_hosts(triton: Triton, models: Path) -> None:
    name = f"new_{triton.name}"
    write(models, name, {"1/model.onnx": onnx_file("Neg", ("n", 4))})
    triton.client.load_model(name)
    for _ in range(6):
        result = triton.infer(name, {"x": np.ones((1, 4), np.float32)})
        assert result.as_numpy("y").tolist() == [[-1, -1, -1, -1]]


def test_a_load_that_no_host_can_do_is_refused_as_one_host_would(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="failed to load 'nowhere': no model repository has it"):
        triton.client.load_model("nowhere")
