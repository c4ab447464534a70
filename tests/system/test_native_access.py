"""A server with tokens reveals its directory, and so allows native and direct runs, only to clients with a token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from nnhal.errors import TransportError
from nnhal_client import Framework, aio, connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import onnx_file, write
from tests.support.tokens import token_file


@pytest.fixture(scope="module")
def closed(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server that requires tokens."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    tokens = token_file(tmp_path_factory.mktemp("tokens"), eye="view", ci="infer", boss="admin")
    with model_server(device_processes, repository, "--tokens", str(tokens)) as process:
        yield process


@pytest.mark.parametrize("token", ["", "unknown-token", "ci"])
@pytest.mark.parametrize("by_socket", [False, True], ids=["by TCP", "by the socket"])
def test_a_client_without_a_known_token_gets_no_native_session(closed: Served, token: str, by_socket: bool) -> None:
    address = f"unix:{closed.endpoint.directory / 'inference.sock'}" if by_socket else closed.grpc
    with pytest.raises(TransportError, match="UNAUTHENTICATED") as caught:
        connect(address, token=token)
    assert str(closed.endpoint.directory) not in str(caught.value).replace(address, "")


@pytest.mark.parametrize("token", ["ci-token", "boss-token"])
def test_a_client_that_may_infer_runs_natively_and_directly(closed: Served, token: str) -> None:
    with connect(closed.grpc, token=token) as session:
        assert isinstance(session, Framework)
        assert session.open("tanh").bind().run().direct


def test_a_client_that_may_only_view_gets_no_native_session(closed: Served) -> None:
    with connect(closed.grpc, token="eye-token") as session:
        assert not isinstance(session, Framework)


def test_a_client_without_a_known_token_gets_no_native_asyncio_session(closed: Served) -> None:
    async def gets_in(token: str) -> bool:
        async with aio.connect(closed.grpc, token=token) as session:
            return isinstance(session, aio.AsyncFramework)

    with pytest.raises(TransportError, match="UNAUTHENTICATED"):
        asyncio.run(gets_in("unknown-token"))
    assert asyncio.run(gets_in("ci-token"))
