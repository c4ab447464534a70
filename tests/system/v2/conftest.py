"""One framework that serves the protocol, and unmodified clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tritonclient.grpc
import tritonclient.http

from tests.support.model_server import Devices, Served, model_server
from tests.support.served_models import write_models
from tests.support.tritonclients import Triton


@pytest.fixture(scope="session")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework with all the models, where clients may have shared memory."""
    repository = write_models(tmp_path_factory.mktemp("repository"))
    with model_server(device_processes, repository, "--allow-client-shm") as process:
        yield process


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest, served: Served) -> Iterator[Triton]:
    api = {"grpc": tritonclient.grpc, "http": tritonclient.http}[request.param]
    with Triton(request.param, api, getattr(served, request.param)) as client:
        yield client
