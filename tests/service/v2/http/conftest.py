"""A front over HTTP, with fakes behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from nnhal_hosting.access import TcpListener
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.whole_requests import Held, Responder
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.v2.http import HttpServer, create_app
from nnhal_service.v2.http.app import ProtocolApp
from nnhal_service.v2.http.infer import Inferences
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


class Server:
    """A server whose application each test replaces: one that ends takes a while to see that it is to end."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        app = ProtocolApp(self._forward, self)
        self.http = HttpServer(TcpListener("127.0.0.1", 0), lambda _: app, shared_loop(), limits=limits)
        self.app: ProtocolApp

    start = Inferences.start

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> object:
        return self.app.whole_requests.known(path, headers)

    def admit(self, known: object, length: int, connection: Responder) -> Held | None:
        return self.app.whole_requests.admit(known, length, connection)

    async def serve(self, known: object, held: Held, body: bytes, connection: Responder) -> None:
        await self.app.whole_requests.serve(known, held, body, connection)


@contextmanager
def serving(
    model: FakeModel,
    guard: Guard | None = None,
    limits: ConnectionLimits | None = None,
    budget: RequestMemoryBudget | None = None,
    server: Server | None = None,
) -> Iterator[Served]:
    """Serve a model until the context ends: by a server with these limits, or by one that runs already."""
    repository, memory, trace, log = FakeRepository(model), FakeMemory(), FakeTrace(), FakeLog()
    with ExitStack() as stack:
        if server is None:
            server = Server(limits)
            stack.enter_context(server.http)
        loop, budget = shared_loop(), budget or RequestMemoryBudget()
        services = Services(SERVER, repository, trace, log, guard or Guard(), loop, MAX_BYTES, memory, budget)
        server.app = create_app(services)
        url = f"http://{server.http.listener.address}"
        client = stack.enter_context(httpx.Client(base_url=url, headers={"Accept-Encoding": ""}, verify=False))
        yield Served(client, repository, model, memory, trace, log)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server of those tests that ask for no limits of their own."""
    server = Server()
    with server.http:
        yield server


@pytest.fixture
def served(server: Server) -> Iterator[Served]:
    with serving(FakeModel(), server=server) as front:
        yield front
