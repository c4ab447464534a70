"""A front over HTTP, with fakes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest

from nnhal_hosting.access import TcpListener
from nnhal_hosting.http import ConnectionLimits
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.v2.http import HttpServer, create_app
from nnhal_service.v2.http.services import Services
from tests.support.serving import shared_loop
from tests.support.v2 import SERVER, FakeLog, FakeMemory, FakeModel, FakeRepository, FakeTrace

MAX_BYTES = 1 << 20


@dataclass
class Served:
    """A front, what is behind it, and a client."""

    client: httpx.Client
    repository: FakeRepository
    model: FakeModel
    memory: FakeMemory
    trace: FakeTrace
    log: FakeLog


@contextmanager
def serving(
    model: FakeModel,
    guard: Guard | None = None,
    limits: ConnectionLimits | None = None,
    budget: RequestMemoryBudget | None = None,
) -> Iterator[Served]:
    repository, memory, trace, log = FakeRepository(model), FakeMemory(), FakeTrace(), FakeLog()
    with ExitStack() as stack:
        loop = shared_loop()
        budget = budget or RequestMemoryBudget()
        services = Services(SERVER, repository, trace, log, guard or Guard(), loop, MAX_BYTES, memory, budget)
        server = stack.enter_context(
            HttpServer(TcpListener("127.0.0.1", 0), lambda _: create_app(services), loop, limits=limits)
        )
        url = f"http://{server.listener.address}"
        client = stack.enter_context(httpx.Client(base_url=url, headers={"Accept-Encoding": ""}))
        yield Served(client, repository, model, memory, trace, log)


@pytest.fixture
def served() -> Iterator[Served]:
    """One model, which returns its inputs."""
    with serving(FakeModel()) as front:
        yield front
