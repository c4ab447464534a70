"""Metrics count the runs of native clients, including direct runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal_client import Framework, connect
from tests.support.model_server import Devices, Served, addresses, devices, model_server
from tests.support.repositories import onnx_file, write
from tests.support.scrape import Scrape
from tests.support.tflite_variables import running_sum
from tests.support.waiting import wait_until

TANH = {"model": "tanh", "version": "1"}
X_BYTES = 8 * 4
LIVES = ("direct", "through the framework", "measured")


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server with a model of one step, one with batches, and one with a state."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "batches", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 8"})
    write(repository, "sum", {"1/model.tflite": running_sum()})
    with model_server(device_processes, repository, "--metrics-config", "histogram_latencies=true") as process:
        yield process


@pytest.fixture
def framework(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


def scraped(served: Served) -> Scrape:
    return Scrape(httpx.get(f"http://{addresses(served.child)['metrics']}/metrics", timeout=60).content)


def complete(served: Served) -> Scrape:
    """Return a scrape in which every device has reported its runs, as one on a busy machine may do too late."""
    scrapes: list[Scrape] = []

    def all_report() -> bool:
        scrapes.append(scraped(served))
        return all(
            scrapes[-1].of("nnhal_device_direct_runs_counted", {}, device=name) == 1 for name in ("cpu_acc", "cpu_ref")
        )

    wait_until(all_report, "all devices report their runs")
    return scrapes[-1]


@pytest.fixture
def grown(served: Served) -> Callable[..., float]:
    """Return a function that says how much a metric has grown since the test began, once all devices have answered."""

    before = complete(served)

    def since(name: str, **labels: str) -> float:
        return complete(served).sum(name, labels) - before.sum(name, labels)

    return since


@pytest.mark.parametrize(("direct", "measure"), [(True, False), (False, False), (False, True)], ids=LIVES)
def test_every_run_of_a_model_of_the_repository_counts(
    framework: Framework, grown: Callable[..., float], direct: bool, measure: bool
) -> None:
    binding = framework.open("tanh").bind(measure, direct=direct)
    for _ in range(7):
        assert binding.run().direct == direct
    assert grown("nv_inference_request_success", **TANH) == 7
    assert grown("nv_inference_count", **TANH) == 7
    assert grown("nv_inference_exec_count", **TANH) == 7
    assert grown("nv_inference_compute_infer_duration_us", **TANH) > 0
    assert grown("nnhal_partition_runs_total", partition="0", device="cpu_acc", **TANH) == 7
    assert grown("nnhal_partition_measured_runs_total", **TANH) == (7 if measure else 0)
    assert grown("nnhal_edge_uses_total", source="", destination="cpu_acc", **TANH) == 7
    assert grown("nnhal_edge_bytes_total", source="cpu_acc", destination="", **TANH) == 7 * X_BYTES
    assert grown("nnhal_client_model_runs_total") == 0
    # For direct runs the device reports only their total duration.
    assert grown("nv_inference_request_duration_histogram_us_count", **TANH) == (0 if direct else 7)


def test_runs_of_a_model_with_a_state_count_in_either_turn(framework: Framework, grown: Callable[..., float]) -> None:
    with framework.open("sum").bind() as binding:
        for number in range(1, 6):
            assert binding.run().direct
            assert grown("nnhal_partition_runs_total", model="sum", version="1") == number
        binding.reset_state()
        binding.run()
    assert grown("nv_inference_request_success", model="sum", version="1") == 6
    assert grown("nnhal_partition_runs_total", model="sum", version="1", device="cpu_acc") == 6


def test_runs_count_once_in_every_scrape_and_after_the_binding_has_ended(
    framework: Framework, grown: Callable[..., float]
) -> None:
    binding = framework.open("tanh").bind()
    for number in range(1, 4):
        binding.run()
        assert grown("nnhal_partition_runs_total", **TANH) == number
    binding.run()
    binding.close()
    assert grown("nnhal_partition_runs_total", **TANH) == 4
    assert grown("nv_inference_count", **TANH) == 4


def test_runs_on_a_device_that_does_not_answer_are_counted_later(tmp_path: Path) -> None:
    on_cpu_ref = 'parameters { key: "nnhal.devices" value { string_value: "cpu_ref" } }'
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(tmp_path, "other", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(tmp_path, "there", {"1/model.onnx": onnx_file(shape=(1, 8)), "config.pbtxt": on_cpu_ref})
    with devices() as own, model_server(own, tmp_path) as served, connect(served.endpoint.directory) as session:
        bindings = [session.open(name).bind() for name in ("tanh", "tanh", "tanh", "other", "there")]
        for binding in bindings:
            assert binding.run().direct
        os.kill(own.pids["cpu_acc"], signal.SIGSTOP)
        try:
            silent = scraped(served)
        finally:
            os.kill(own.pids["cpu_acc"], signal.SIGCONT)
        assert silent.of("nnhal_device_up", {}, device="cpu_acc") == 0
        assert silent.of("nnhal_device_direct_runs_counted", {}, device="cpu_acc") == 0
        assert silent.of("nv_inference_count", TANH) == 0
        assert silent.of("nnhal_device_direct_runs_counted", {}, device="cpu_ref") == 1
        assert silent.of("nv_inference_count", {"model": "there", "version": "1"}) == 1

        def all_are_counted() -> bool:
            scrape = scraped(served)
            counts = [scrape.of("nv_inference_count", {"model": name, "version": "1"}) for name in ("tanh", "other")]
            return counts == [3, 1] and scrape.of("nnhal_device_direct_runs_counted", {}, device="cpu_acc") == 1

        wait_until(all_are_counted, "the device reports its runs")


def test_a_batch_is_one_run_of_many_items(framework: Framework, grown: Callable[..., float]) -> None:
    framework.open("batches").run({"x": np.zeros((5, 8), np.float32)})
    assert grown("nv_inference_count", model="batches") == 5
    assert grown("nnhal_partition_runs_total", model="batches") == 1
    assert grown("nnhal_edge_bytes_total", model="batches", source="") == 5 * X_BYTES


def test_models_that_clients_have_loaded_count_by_device(
    framework: Framework, grown: Callable[..., float], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    model = framework.load(path, devices=["cpu_ref"])
    direct, through = model.bind(), model.bind(direct=False)
    for _ in range(4):
        assert direct.run().direct
    through.run()
    model.bind(measure_timing=True).run()
    with pytest.raises(HalError):
        through.run(deadline_ns=1)
    assert grown("nnhal_client_model_runs_total") == 6
    assert grown("nnhal_client_model_failed_runs_total") == 1
    assert grown("nnhal_client_model_seconds_total") > 0
    assert grown("nnhal_client_model_partition_runs_total", device="cpu_ref") == 6
    assert grown("nnhal_client_model_partition_runs_total", device="cpu_acc") == 0
    direct.run()
    model.unload()
    assert grown("nnhal_client_model_runs_total") == 7
    assert grown("nv_inference_count", **TANH) == 0
