"""Heads of requests without an end, at every port of HTTP: none is read further than its limit."""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.supervision import Child
from tests.support.long_heads import LONG_HEADS, answer_to
from tests.support.model_server import Devices, Served, addresses, model_server
from tests.support.processes import WARM
from tests.support.repositories import onnx_file, write
from tests.support.resources import forget_peak, peak_bytes
from tests.support.v2 import call
from tests.support.waiting import wait_until

SPARE = 16 << 20
REFUSED = (b"HTTP/1.1 431 ", b"")
"""A connection that is closed while the client sends may lose its answer."""


@pytest.fixture(scope="module")
def fronted(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with front workers: its own process serves metrics, and they the protocol."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file()})
    with model_server(device_processes, repository, "--front-workers", "2") as served:
        yield served


@pytest.fixture(scope="module")
def dashboard() -> Iterator[tuple[Child, str]]:
    """The process of a dashboard that has nothing to show, and its address."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        child = Child("nnhal_dashboard", ["--directory", directory, "--port", "0"], zygote=WARM)
        try:
            child.wait_until_ready()
            wait_until(lambda: "http://" in child.said(), "it says where it is")
            yield child, child.said().partition("http://")[2].split()[0].rstrip("/")
        finally:
            child.stop()


def refused(address: str, name: str) -> None:
    assert answer_to(address, name).startswith(REFUSED)
    host, _, port = address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_HEADS)
def test_no_head_takes_memory(served: Served, name: str) -> None:
    before = forget_peak(served.pid)
    refused(served.http, name)
    assert peak_bytes(served.pid) - before < SPARE


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_HEADS)
def test_other_ports_have_the_same_limit(fronted: Served, dashboard: tuple[Child, str], name: str) -> None:
    child, pages = dashboard
    before = forget_peak(child.pid)
    for address in (fronted.http, addresses(fronted.child)["metrics"], pages):
        refused(address, name)
    assert peak_bytes(child.pid) - before < SPARE


@pytest.mark.slow
def test_metadata_of_grpc_has_a_limit(served: Served) -> None:
    before = forget_peak(served.pid)
    with grpc.insecure_channel(served.grpc, [("grpc.max_metadata_size", 1 << 26)]) as channel:
        for metadata in ([("a", "b" * (8 << 20))], [(f"a{index}", "b" * 1000) for index in range(8000)]):
            with pytest.raises(grpc.RpcError):
                call(channel, "ServerLive", wire.ServerLiveRequest(), metadata)
    with grpc.insecure_channel(served.grpc) as channel:
        call(channel, "ServerLive", wire.ServerLiveRequest(), [("a", "b" * 4000)])
    assert peak_bytes(served.pid) - before < SPARE
