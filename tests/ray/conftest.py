"""Two nodes of Ray on this host, with nnhal on each."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc
import tritonclient.http

from tests.ray.ray_cluster import RayCluster, ray_cluster, worker_node
from tests.support.repositories import write
from tests.support.served_models import write_models
from tests.support.stateful_models import SUM
from tests.support.tflite_variables import running_sum
from tests.support.tritonclients import Triton


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them if Ray is not installed."""
    missing = pytest.mark.skip(reason="needs Ray, which 'make ray' installs in an environment of its own")
    for item in items:
        if item.nodeid.startswith("tests/ray/"):
            item.add_marker(pytest.mark.ray)
            if importlib.util.find_spec("ray") is None:
                item.add_marker(missing)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of models; SUM adds up the requests of a sequence, from 10 on."""
    repository = write_models(tmp_path_factory.mktemp("models"))
    write(repository, SUM, {"1/model.tflite": running_sum()})
    return repository


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A cluster of two nodes, on which nothing is deployed."""
    with ray_cluster() as found, worker_node(found, "worker"):
        yield found


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest, hosts: RayCluster) -> Iterator[Triton]:
    """tritonclient, of each protocol, for the ``hosts`` of the tests' file."""
    api = {"grpc": tritonclient.grpc, "http": tritonclient.http}[request.param]
    with Triton(request.param, api, f"127.0.0.1:{getattr(hosts.head, request.param)}") as client:
        yield client
