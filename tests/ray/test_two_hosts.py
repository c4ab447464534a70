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
from tests.support.ray_cluster import RayCluster
from tests.support.repositories import onnx_file, write
from tests.support.served_models import sample
from tests.support.tritonclients import Triton, input_of

MEBIBYTES_16 = 1 << 24
INVALID = ("StatusCode.INVALID_ARGUMENT", "400")


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that have all models."""
    cluster.deploy(model_repository=str(models), accelerators={"npu": 1}, min_hosts=2, max_hosts=2)
    return cluster


def test_hosts_are_on_different_nodes(hosts: RayCluster) -> None:
    assert len({replica["node"] for replica in hosts.replicas()}) == 2


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "BOOL", "BF16", "BYTES"])
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


def test_both_hosts_run_requests_and_metrics_tell_them_apart(hosts: RayCluster, triton: Triton) -> None:
    before = hosts.counts("echo_fp64")
    for _ in range(8):
        with Triton(triton.name, triton.api, triton.address) as client:
            client.infer("echo_fp64", {"x": sample("FP64")})
    after = hosts.counts("echo_fp64")
    assert after.keys() == {replica["node"] for replica in hosts.replicas()}
    assert sum(after.values()) == sum(before.values()) + 8


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


def test_shared_memory_is_refused_with_the_reason(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="memory of one host") as caught:
        triton.client.register_system_shared_memory("region", "/region", 64)
    assert caught.value.status() == {"grpc": "StatusCode.UNIMPLEMENTED", "http": "501"}[triton.name]
    tensor = triton.api.InferInput("x", [2, 4], "FP32")
    tensor.set_shared_memory("region", 32)
    with pytest.raises(InferenceServerException, match="memory of one host"):
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
