"""A server that has ended ends its process, so that it is started again, and no client is sent to it meanwhile."""

from __future__ import annotations

import tempfile
from pathlib import Path

import grpc
import httpx
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined,unused-ignore]
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal.admin import EXIT_STATUS
from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from tests.support.http2_client import http2_client
from tests.support.model_server import Devices, Served, addresses, arguments, model_server
from tests.support.raw_http2 import answer, connected, headers_of, opened
from tests.support.repositories import onnx_file, write
from tests.support.waiting import SECONDS, wait_until

BAD_PATH = b"/\xff"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder, "tanh", {"1/model.onnx": onnx_file()})
    return folder


def send_bad_path(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(opened(1, *headers_of(BAD_PATH)))
        answer(connection, 1)


def is_serving(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        answered = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    return bool(answered.status == health_pb2.HealthCheckResponse.SERVING)


@pytest.mark.skipif(
    not hasattr(cygrpc.AioServer, "_make_request_call_future"), reason="this grpcio's server outlives the path"
)
def test_the_process_ends_with_its_server(device_processes: Devices, repository: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        endpoint = Endpoint(Path(directory) / "framework", "framework")
        child = Child("tests.support.unguarded_front", arguments(endpoint.directory, repository, device_processes))
        try:
            child.wait_until_ready()
            wait_until(lambda: "grpc" in addresses(child), "the address is printed")
            send_bad_path(addresses(child)["grpc"])
            assert child.process.wait(SECONDS) == EXIT_STATUS
        finally:
            child.stop()


@pytest.mark.parametrize("options", [(), ("--front-workers", "2")], ids=["one process", "front workers"])
def test_a_bad_path_ends_no_server(device_processes: Devices, repository: Path, options: tuple[str, ...]) -> None:
    with model_server(device_processes, repository, *options) as served:
        for address in listeners(served):
            for _ in range(4):  # to each front worker
                with http2_client(address) as client:
                    assert client.answer(client.request(BAD_PATH)).message == "no such method"
            assert is_serving(address)
        assert httpx.get(f"http://{served.http}/v2/health/ready").status_code == 200


def listeners(served: Served) -> list[str]:
    return [served.grpc, f"unix:{served.endpoint.directory / 'inference.sock'}"]
