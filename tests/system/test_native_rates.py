"""A server's rate limit holds for native clients too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest

from nnhal.errors import HalError
from nnhal.inference import grpc_service_pb2 as inference
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Binding, Framework, connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.v2 import call, raw_request, streamed_in_bytes

ONCE = "0.0001"
"""A rate in runs per second that allows one run now, and the next only after the test."""


@pytest.fixture
def limited(device_processes: Devices, tmp_path: Path) -> Iterator[Path]:
    """Run a server on which a client may run once, and return its directory."""
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, tmp_path, "--rate-limit", ONCE) as served:
        yield served.endpoint.directory


def run_by_call(framework: Framework, binding: Binding) -> object:
    request = wire.RunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE)
    return framework.calls.call(framework.stub.Run, request)


def launch(framework: Framework, binding: Binding) -> object:
    return binding.launch()


def run(framework: Framework, binding: Binding) -> object:
    return binding.run()


@pytest.mark.parametrize("way", [run, run_by_call, launch])
def test_a_client_that_exceeds_its_rate_limit_is_told_to_retry_later(
    limited: Path, way: Callable[[Framework, Binding], object]
) -> None:
    with connect(limited) as session:
        way(session, session.open("tanh").bind())
        for next_way in (run, run_by_call, launch):
            with connect(limited) as other, pytest.raises(HalError) as caught:
                next_way(other, other.open("tanh").bind())
            assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
            assert caught.value.message == "too many requests; come again later"


def test_the_rate_limit_also_holds_for_models_that_the_client_loaded(limited: Path, tmp_path: Path) -> None:
    with connect(limited) as session:
        binding = session.load(tmp_path / "tanh/1/model.onnx").bind()
        assert not binding.run().direct
        with pytest.raises(HalError, match="too many requests"):
            binding.run()


def test_a_client_with_a_rate_limit_has_no_run_channel(limited: Path) -> None:
    with connect(limited) as session:
        assert not session.open("tanh").bind(direct=True).run().direct


def test_a_client_without_a_rate_limit_has_a_run_channel(device_processes: Devices, tmp_path: Path) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, tmp_path) as served, connect(served.endpoint.directory) as session:
        assert session.open("tanh").bind().run().direct


def ask_over_http(served: Served) -> bool:
    """Return whether a request from another address of the loopback is served."""
    with closing(HTTPConnection("127.0.0.1", served.port, 60, source_address=("127.45.6.7", 0))) as connection:
        connection.request("GET", "/v2")
        return connection.getresponse().status == 200


def ask_over_grpc(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        try:
            call(channel, "ServerMetadata", inference.ServerMetadataRequest())
        except grpc.RpcError as error:
            assert "RESOURCE_EXHAUSTED" in str(error)
            return False
        return True


def run_natively(served: Served) -> bool:
    with connect(served.endpoint.directory) as session:
        try:
            session.open("tanh").bind().run()
        except HalError as error:
            assert error.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
            return False
        return True


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_this_host_is_one_client_over_every_protocol(device_processes: Devices, tmp_path: Path, workers: str) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, tmp_path, "--rate-limit", ONCE, "--front-workers", workers) as served:
        assert run_natively(served)
        assert not run_natively(served)
        assert not ask_over_http(served)
        assert not ask_over_grpc(served.grpc)
        assert not ask_over_grpc(f"unix:{served.endpoint.directory}/inference.sock")


@pytest.mark.slow
def test_each_request_of_a_stream_counts(device_processes: Devices, tmp_path: Path) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with (
        model_server(device_processes, tmp_path, "--rate-limit", ONCE) as served,
        grpc.insecure_channel(served.grpc) as channel,
    ):
        request = raw_request("tanh", x=numbers()).SerializeToString()
        answers = [
            inference.ModelStreamInferResponse.FromString(answer)
            for answer in streamed_in_bytes(channel)(iter([request] * 3), timeout=60)
        ]
        assert [answer.error_message for answer in answers] == ["", *["too many requests; come again later"] * 2]
