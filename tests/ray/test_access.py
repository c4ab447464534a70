"""Tokens, which replicas check."""

from __future__ import annotations

import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.ray.ray_cluster import RayCluster
from tests.support.served_models import sample
from tests.support.stateful_models import SUM
from tests.support.tritonclients import Triton

TOKENS = {"infer": "token of a client", "admin": "token of an admin"}


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path, tmp_path_factory: pytest.TempPathFactory) -> RayCluster:
    """A host that asks for tokens."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    entries = [
        f'[[token]]\nname = "{role}"\nrole = "{role}"\nsha256 = "{sha256(token.encode()).hexdigest()}"\n'
        for role, token in TOKENS.items()
    ]
    path.write_text("".join(entries))
    cluster.deploy(model_repository=str(models), tokens=str(path), insecure=False)
    return cluster


def shown(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def test_readiness_needs_no_token(triton: Triton) -> None:
    assert triton.client.is_server_ready()


def test_models_run_with_a_token_only(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="needs a bearer token") as caught:
        triton.infer("echo_fp32", {"x": sample("FP32")})
    assert caught.value.status() == {"grpc": "StatusCode.UNAUTHENTICATED", "http": "401"}[triton.name]
    for _ in range(4):
        result = triton.infer("echo_fp32", {"x": sample("FP32")}, headers=shown("infer"))
        assert np.array_equal(result.as_numpy("y"), sample("FP32"))


def test_a_sequence_keeps_its_state_on_the_only_host(triton: Triton) -> None:
    def total(turn: int) -> float:
        x = {"x": np.ones(3, np.float32)}
        found = triton.infer(SUM, x, sequence_id=7, sequence_start=not turn, headers=shown("infer"))
        return float(found.as_numpy("y")[0])

    assert [total(turn) for turn in range(4)] == [11, 12, 13, 14]


def test_an_escaped_path_needs_the_role_of_what_it_names(hosts: RayCluster) -> None:
    url = f"http://127.0.0.1:{hosts.head.http}/v2/models/echo_fp32/trace%2Fsetting"
    request = urllib.request.Request(url, b"{}", {"Authorization": shown("infer")["authorization"]})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    caught.value.close()
    assert caught.value.code == 403


def test_models_are_loaded_by_admins_only(triton: Triton) -> None:
    with pytest.raises(InferenceServerException, match="has role infer, expected admin") as caught:
        triton.client.load_model("echo_fp32", headers=shown("infer"))
    assert caught.value.status() == {"grpc": "StatusCode.PERMISSION_DENIED", "http": "403"}[triton.name]
    triton.client.load_model("echo_fp32", headers=shown("admin"))
