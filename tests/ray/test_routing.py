"""Models that do not fit every host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support.ray_cluster import RayCluster
from tests.support.served_models import sample
from tests.support.tritonclients import Triton

DATATYPES = ("FP32", "FP64", "INT8", "INT16", "INT32")


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that hold two models each."""
    cluster.deploy(model_repository=str(models), min_hosts=2, max_hosts=2, models_per_host=2)
    return cluster


def loaded(triton: Triton) -> list[str]:
    """The models that some host has loaded."""
    index = triton.shown("get_model_repository_index")
    rows = index["models"] if isinstance(index, dict) else index
    return [row["name"] for row in rows if row.get("state") == "READY"]


def test_models_come_and_go_with_the_requests_for_them(triton: Triton) -> None:
    for datatype in (*DATATYPES, *reversed(DATATYPES)):
        sent = sample(datatype)
        result = triton.infer(f"echo_{datatype.lower()}", {"x": sent})
        assert np.array_equal(result.as_numpy("y"), sent)
    assert 1 <= len(loaded(triton)) <= 4


def test_a_large_tensor_comes_back_as_it_is(triton: Triton) -> None:
    sent = np.arange(1 << 22, dtype=np.float32).reshape(-1, 4)
    assert np.array_equal(triton.infer("echo_fp32", {"x": sent}).as_numpy("y"), sent)


def test_an_unknown_model_is_refused(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="'nowhere'"):
        triton.infer("nowhere", {"x": sample("FP32")})


def test_a_model_is_unloaded_and_loaded_on_request(triton: Triton) -> None:
    triton.client.load_model("echo_fp16")
    assert "echo_fp16" in loaded(triton)
    triton.client.unload_model("echo_fp16")
    assert "echo_fp16" not in loaded(triton)
    assert np.array_equal(triton.infer("echo_fp16", {"x": sample("FP16")}).as_numpy("y"), sample("FP16"))


def test_a_load_with_a_configuration_is_refused_with_the_reason(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="would last until"):
        triton.client.load_model("echo_fp32", config="{}")
