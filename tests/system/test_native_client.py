"""The native client against a server with a model repository: without copies if possible, else with bytes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import grpc
import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.native import BOOT_ID, NATIVE_DIRECTORY
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, V2Server, connect
from nnhal_service.serving import TensorDescription
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.killed_clients import holding_bindings, killed_client
from tests.support.model_server import Devices, Served, devices, model_server
from tests.support.processes import WARM
from tests.support.repositories import onnx_file, write
from tests.support.testbeds import kill_for_good
from tests.support.v2 import FakeModel
from tests.support.v2_front import serving
from tests.support.waiting import settled, wait_until

STATISTICS = "ModelStatistics", wire.ModelStatisticsResponse
UNLOAD = "RepositoryModelUnload", wire.RepositoryModelUnloadResponse
LOAD = "RepositoryModelLoad", wire.RepositoryModelLoadResponse
WORDS = ("once", "upon", "a", "time")


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server with ``tanh`` of one step, ``wide`` with much data, and ``open`` with unknown dimensions."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "wide", {"1/model.onnx": onnx_file("Relu", (1, 1 << 20))})
    write(repository, "open", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 8"})
    write(repository, "fleeting", {"1/model.onnx": onnx_file(shape=(1, 8)), "2/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, repository) as process:
        yield process


@pytest.fixture
def framework(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


@pytest.fixture
def server(served: Served) -> Iterator[V2Server]:
    """Open a session with the same server that sends bytes."""
    with V2Server(served.grpc) as session:
        yield session


def row(*values: float) -> Array:
    return np.resize(np.array(values, np.float32), (1, 8))


def refused(call: Callable[[], object]) -> tuple[ErrorStatus, str]:
    with pytest.raises(HalError) as caught:
        call()
    return caught.value.status, caught.value.message


def counted(server: V2Server, name: str) -> wire.ModelStatistics:
    (statistics,) = server.call(STATISTICS, wire.ModelStatisticsRequest(name=name)).model_stats
    return statistics


def test_results_are_views_of_the_memory_that_the_device_writes(framework: Framework) -> None:
    binding = framework.open("wide").bind()
    view = binding.outputs["y"]
    before = binding.socket_bytes
    for value in (-1.0, 3.0):
        binding.inputs["x"][...] = value
        binding.run()
        assert np.shares_memory(view, binding.outputs["y"])
        assert np.all(view == max(value, 0))
    assert binding.socket_bytes - before < 200


def test_a_plan_of_one_step_runs_without_the_framework(framework: Framework) -> None:
    model = framework.open("tanh")
    binding = model.bind()
    binding.inputs["x"][...] = row(0.5)
    assert binding.run().direct
    np.testing.assert_allclose(binding.outputs["y"], np.tanh(row(0.5)), atol=1e-6)
    assert not model.bind(direct=False).run().direct
    assert not model.bind(measure_timing=True).run().direct


def test_a_run_with_a_deadline_goes_through_the_framework(framework: Framework) -> None:
    binding = framework.open("tanh").bind()
    assert refused(lambda: binding.run(deadline_ns=1))[0] == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    assert binding.run().direct


def test_unknown_dimensions_are_taken_from_the_inputs(framework: Framework) -> None:
    model = framework.open("open")
    for rows in (1, 5, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
        np.testing.assert_allclose(model.run({"x": x})["y"], np.tanh(x), atol=1e-6)


@pytest.mark.parametrize("direct", [True, False])
def test_every_run_counts_in_the_statistics(framework: Framework, server: V2Server, direct: bool) -> None:
    binding = framework.open("tanh").bind(direct=direct)
    before = counted(server, "tanh")
    for _ in range(7):
        binding.run()
    after = counted(server, "tanh")
    assert after.inference_count - before.inference_count == 7
    assert after.execution_count - before.execution_count == 7
    assert after.inference_stats.success.count - before.inference_stats.success.count == 7
    assert after.inference_stats.compute_infer.ns > before.inference_stats.compute_infer.ns
    binding.run()
    binding.close()
    assert counted(server, "tanh").inference_count - before.inference_count == 8


def test_a_batch_counts_as_often_as_it_has_items(framework: Framework, server: V2Server) -> None:
    before = counted(server, "open")
    framework.open("open").run({"x": np.zeros((5, 8), np.float32)})
    after = counted(server, "open")
    assert after.inference_count - before.inference_count == 5
    assert after.execution_count - before.execution_count == 1


def test_an_unloaded_model_cannot_run_until_it_is_loaded_again(framework: Framework, server: V2Server) -> None:
    model = framework.open("fleeting")
    direct, through = model.bind(), model.bind(direct=False)
    assert direct.run().direct
    through.run()
    server.call(UNLOAD, wire.RepositoryModelUnloadRequest(model_name="fleeting"))
    try:
        for binding in (direct, through):
            assert refused(binding.run) == (ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
        status, message = refused(lambda: model.run({"x": row(1)}))
        assert status == ErrorStatus.DEVICE_UNAVAILABLE
        assert "not at ready state" in message
    finally:
        server.call(LOAD, wire.RepositoryModelLoadRequest(model_name="fleeting"))
    np.testing.assert_allclose(model.run({"x": row(1)})["y"], np.tanh(row(1)), atol=1e-6)


def test_a_version_can_be_named(framework: Framework) -> None:
    assert framework.open("fleeting").version == "2"
    status, message = refused(lambda: framework.open("fleeting", "1"))
    assert status == ErrorStatus.INVALID_ARGUMENT
    assert "version 1 is not found" in message


def test_an_unknown_model_is_refused(framework: Framework) -> None:
    assert refused(lambda: framework.open("nothing"))[0] == ErrorStatus.INVALID_ARGUMENT


def test_a_framework_without_a_repository_says_so(short_path: Path) -> None:
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed, connect(testbed.framework) as session:
        status, message = refused(lambda: session.open("tanh"))
    assert status == ErrorStatus.INVALID_ARGUMENT
    assert "no model repository" in message


def test_a_killed_client_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with (
        devices() as own,
        model_server(own, tmp_path) as server,
        RemoteDevice(own.endpoints["cpu_acc"]) as device,
    ):

        def held() -> tuple[int, int, int]:
            usage = device.usage()
            return usage.executions, usage.mappings, len(list(Path(f"/proc/{server.pid}/fd").iterdir()))

        def kill() -> None:
            with killed_client(holding_bindings, server.endpoint.directory, "tanh"):
                assert device.usage().executions == 4
            wait_until(lambda: device.usage().executions == 0, "the bindings are released")

        kill()
        before = settled(held)
        kill()

        def is_free() -> bool:
            executions, mappings, descriptors = held()
            # gRPC opens and closes a few descriptors; each of the four bindings has at least one.
            return executions == 0 and mappings <= before[1] and descriptors < before[2] + 4

        wait_until(is_free, "everything is released")


def test_bindings_beyond_the_limit_of_run_channels_still_run(framework: Framework) -> None:
    model = framework.open("tanh")
    bindings = [model.bind() for _ in range(70)]
    direct = [binding.run().direct for binding in bindings]
    assert sum(direct) == 64
    bindings[0].close()
    assert model.bind().run().direct


@pytest.mark.parametrize("fallback", ["allow", "deny"])
def test_a_device_that_is_killed_under_a_burst(
    short_path: Path, tmp_path: Path, fallback: Literal["allow", "deny"]
) -> None:
    path = tmp_path / "tanh.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed, connect(testbed.framework) as session:
        binding = session.load(path, fallback=fallback).bind()
        binding.inputs["x"][...] = row(0.25)
        assert binding.run().direct
        kill_for_good(testbed, "cpu_acc")
        if fallback == "deny":
            assert refused(binding.run)[0] == ErrorStatus.DEVICE_UNAVAILABLE
            return
        report = binding.run()
        assert not report.direct
        np.testing.assert_allclose(binding.outputs["y"], np.tanh(row(0.25)), atol=1e-6)


def test_a_framework_that_is_killed_ends_bursts_too(short_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "tanh.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed, connect(testbed.framework) as session:
        binding = session.load(path).bind()
        assert binding.run().direct
        os.kill(testbed.pid("framework"), signal.SIGKILL)

        def over() -> bool:
            try:
                binding.run()
            except NnhalError:
                return True
            return False

        wait_until(over, "the device has released the burst")


class TestTransport:
    """Choice of the transport by ``connect``."""

    def test_it_is_native_on_the_same_host(self, served: Served) -> None:
        for target in (served.grpc, f"grpc://{served.grpc}", str(served.endpoint.directory)):
            with connect(target) as session:
                model = session.open("tanh")
                assert model.transport == "native"
                np.testing.assert_allclose(model.run({"x": row(2)})["y"], np.tanh(row(2)), atol=1e-6)

    def test_it_sends_bytes_if_the_client_asks_for_it(self, served: Served) -> None:
        with connect(served.grpc, native=False) as session:
            model = session.open("tanh")
            assert model.transport == "v2"
            np.testing.assert_allclose(model.run({"x": row(2)})["y"], np.tanh(row(2)), atol=1e-6)
            with pytest.raises(ValueError, match=r"expected float32 \[1, 8\]"):
                model.run({"x": row(2).astype(np.float64)})
            with pytest.raises(ValueError, match="got inputs"):
                model.run({"z": row(2)})

    def test_it_sends_bytes_if_the_server_has_no_link(self, short_path: Path) -> None:
        with serving(short_path, FakeModel()), connect(f"unix:{short_path / 'v2.sock'}") as session:
            model = session.open("echo")
            assert model.transport == "v2"
            x = np.array([1, 2, 3], np.float32)
            np.testing.assert_array_equal(model.run({"x": x})["x"], x)

    def test_it_sends_bytes_if_the_directory_cannot_be_reached(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unreachable(directory: str, concurrency: int) -> Framework:
            return Framework(Path(directory) / "elsewhere", concurrency)

        monkeypatch.setattr("nnhal_client.connecting.Framework", unreachable)
        with connect(served.grpc) as session:
            assert session.open("tanh").transport == "v2"

    @pytest.mark.parametrize("ask", [(), ((BOOT_ID, "another host's"),), ((BOOT_ID, ""),)])
    def test_a_remote_client_is_not_told_the_servers_directories(
        self, served: Served, ask: tuple[tuple[str, str], ...]
    ) -> None:
        with V2Server(served.grpc, ask=ask) as session:
            assert NATIVE_DIRECTORY not in session.answered

    def test_connecting_without_a_server_is_an_error(self, short_path: Path) -> None:
        with pytest.raises(HalError) as caught:
            connect(f"unix:{short_path / 'missing'}")
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        assert isinstance(caught.value.__cause__, grpc.RpcError)

    def test_strings_are_sent_as_bytes(self, short_path: Path) -> None:
        text = TensorDescription("x", "BYTES", (-1,))
        with (
            serving(short_path, FakeModel(inputs=(text,), outputs=(text,))),
            connect(f"unix:{short_path / 'v2.sock'}") as session,
        ):
            outputs = session.open("echo").run({"x": np.array(WORDS, object)})
        np.testing.assert_array_equal(outputs["x"], np.array([word.encode() for word in WORDS], object))
