"""Metrics as a scrape returns them, of models that really ran."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from nnhal.endpoint import Endpoint
from nnhal_hosting.access import TcpListener
from nnhal_service.observability import Metrics, MetricsOptions, NativeClients, metrics_app, metrics_options
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.partition import Options
from nnhal_service.runtime import Fleet, LoadedModel, load_model
from nnhal_service.serving import Batching, Cancellation, InferenceRequest, ServedModel, ServingConfig, ServingError
from nnhal_service.v2.http import HttpServer
from tests.service.observability.conftest import Serve, infer
from tests.support.onnx_models import random
from tests.support.processes import device_process
from tests.support.repositories import onnx_file
from tests.support.scrape import M, Scrape
from tests.support.serving import shared_loop
from tests.support.waiting import stop, wait_for_death, wait_until

X_BYTES = 2 * 3 * 4
TRITON_COUNTERS = (
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)


@contextmanager
def metered(
    serve: Serve,
    fleet: Fleet,
    options: MetricsOptions | None = None,
    config: ServingConfig | None = None,
    clients: NativeClients | None = None,
) -> Iterator[tuple[ServedModel, Metrics]]:
    models: list[ServedModel] = []
    metrics = Metrics(lambda: models, fleet, options or MetricsOptions(), clients or NativeClients(sessions=lambda: 3))
    try:
        served = serve([metrics.requests], config)
        models.append(served)
        yield served, metrics
    finally:
        metrics.close()


def test_counters_have_the_names_and_the_type_that_dashboards_of_triton_know(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet) as (_, metrics):
        lines = metrics.render().decode().splitlines()
    for name in TRITON_COUNTERS:
        assert f"# TYPE {name} counter" in lines
        assert any(line.startswith(f'{name}{{model="m"') for line in lines)
    assert "# TYPE nv_inference_pending_request_count gauge" in lines
    assert not any(line.startswith("nv_") and line.split("{")[0].split(" ")[0].endswith("_total") for line in lines)


def test_counters_are_what_was_run(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet) as (served, metrics):
        for _ in range(3):
            infer(served)
        given_up = Cancellation()
        given_up.cancel()
        for wrong in (
            InferenceRequest({"x": random(2, 3)}, cancellation=given_up),
            InferenceRequest({"z": random(2, 3)}),
            InferenceRequest({}),
        ):
            with pytest.raises(ServingError):
                served.infer_and_wait(wrong)
        statistics, scrape = served.statistics(), Scrape(metrics.render())
    assert scrape.of("nv_inference_request_success") == 3
    assert scrape.of("nv_inference_count") == 3
    assert scrape.of("nv_inference_exec_count") == 3
    assert scrape.of("nv_inference_pending_request_count") == 0
    reasons = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
    assert [scrape.of("nv_inference_request_failure", reason=reason) for reason in reasons] == [0, 1, 0, 2]
    assert scrape.of("nv_inference_request_duration_us") == statistics.success.ns // 1000 > 0
    for kind in ("queue", "compute_input", "compute_infer", "compute_output"):
        assert scrape.of(f"nv_inference_{kind}_duration_us") == getattr(statistics, kind).ns // 1000
    assert scrape.of("nnhal_native_sessions", {}) == 3
    assert scrape.of("process_open_fds", {}) > 0


def test_a_batch_is_one_execution(serve: Serve, fleet: Fleet) -> None:
    config = ServingConfig(max_batch_size=4, batching=Batching((4,), max_queue_delay_ns=60 * 10**9))
    with metered(lambda *given: serve(*given, shape=("n", 3)), fleet, config=config) as (served, metrics):
        threads = [threading.Thread(target=infer, args=(served, "", 2)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        scrape = Scrape(metrics.render())
    assert scrape.of("nv_inference_request_success") == 2
    assert scrape.of("nv_inference_count") == 4
    assert scrape.of("nv_inference_exec_count") == 1
    assert scrape.of("nnhal_partition_runs", partition="0", device="cpu_acc") == 1


@pytest.mark.parametrize("measure", [False, True])
def test_steps_and_edges_are_those_of_the_plan(serve: Serve, fleet: Fleet, measure: bool) -> None:
    with metered(lambda *given: serve(*given, measure=measure), fleet) as (served, metrics):
        for _ in range(4):
            infer(served)
        arena, scrape = served.arena_bytes, Scrape(metrics.render())
    steps = [{**M, "partition": "0", "device": "cpu_acc"}, {**M, "partition": "1", "device": "cpu_ref"}]
    assert [scrape.of("nnhal_partition_runs", step) for step in steps] == [4, 4]
    if measure:
        assert [scrape.of("nnhal_partition_measured_runs", step) for step in steps] == [4, 4]
        assert all(scrape.of("nnhal_partition_device_seconds", step) > 0 for step in steps)
    else:
        assert not scrape.has("nnhal_partition_measured_runs_total")
    for source, destination in (("", "cpu_acc"), ("cpu_acc", "cpu_ref"), ("cpu_ref", "")):
        edge = {"source": source, "destination": destination}
        names = ("nnhal_edge_uses_total", "nnhal_edge_bytes_total", "nnhal_edge_copied_bytes_total")
        assert [scrape.total(name, edge) for name in names] == [4, 4 * X_BYTES, 0]
    assert scrape.of("nnhal_pool_bytes", pool="arena") == arena > 0
    assert scrape.of("nnhal_fallback_runs") == 0


def test_histograms_and_summaries_are_there_when_they_are_asked_for(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet) as (served, metrics):
        infer(served)
        assert not Scrape(metrics.render()).has("nv_inference_request_duration_histogram_us_bucket")
    options = metrics_options(
        ["histogram_latencies=true", "summary_latencies=true", "summary_quantiles=0.5:0.05,0.99:0.001"]
    )
    with metered(serve, fleet, replace(options, histogram_buckets_us=(1.0, 1e9))) as (served, metrics):
        for _ in range(5):
            infer(served)
        statistics, scrape = served.statistics(), Scrape(metrics.render())
    for kind in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        name = f"nv_inference_{kind}_duration_histogram_us"
        assert scrape.of(f"{name}_count") == scrape.of(f"{name}_bucket", le="+Inf") == 5
        assert scrape.of(f"{name}_bucket", le="1000000000.0") == 5
        total = (statistics.success if kind == "request" else getattr(statistics, kind)).ns / 1e3
        assert scrape.of(f"{name}_sum") == pytest.approx(total)
        summary = f"nv_inference_{kind}_summary_us"
        assert scrape.of(f"{summary}_count") == 5
        assert scrape.of(f"{summary}_sum") == pytest.approx(total)
        median, highest = scrape.of(summary, quantile="0.5"), scrape.of(summary, quantile="0.99")
        assert 0 <= median <= highest <= total
    name = "nv_inference_request_duration_histogram_us"
    assert scrape.of(f"{name}_bucket", le="1.0") == 0
    assert scrape.of("nv_inference_first_response_histogram_ms_count") == 5
    assert scrape.of("nv_inference_first_response_histogram_ms_bucket", le="1000000.0") == 5


def test_counter_latencies_can_be_left_out(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet, metrics_options(["counter_latencies=false"])) as (_, metrics):
        scrape = Scrape(metrics.render())
    assert scrape.of("nv_inference_request_success") == 0
    assert "nv_inference_request_duration_us" not in scrape.text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("summary_latencies", "expected NAME=VALUE"),
        ("summary_latencies=maybe", "'maybe', expected true or false"),
        ("latencies=true", "'latencies' is unknown, expected one of counter_latencies"),
        ("summary_quantiles=0.5,x", "'x', expected a number"),
        ("summary_quantiles=1.5", "expected numbers between 0 and 1"),
        ("histogram_buckets_us=10,5", "each above the one before"),
    ],
)
def test_a_wrong_setting_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics_options([setting])


def test_the_hosts_memory_and_processors_are_told(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet) as (_, metrics):
        scrape = Scrape(metrics.render())
    assert scrape.of("nv_cpu_memory_total_bytes", {}) == psutil.virtual_memory().total
    assert 0 < scrape.of("nv_cpu_memory_used_bytes", {}) < psutil.virtual_memory().total
    assert 0 <= scrape.of("nv_cpu_utilization", {}) <= 1


def test_devices_say_what_they_hold(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet) as (served, metrics):
        before = Scrape(metrics.render())
        for _ in range(3):
            infer(served)
        scrape = Scrape(metrics.render())
        usage = fleet.get("cpu_ref").remote.usage()
    device = {"device": "cpu_ref"}
    assert scrape.of("nnhal_device_up", device) == 1
    assert scrape.of("nnhal_device_info", device, version=fleet.get("cpu_ref").version, type="CPU") == 1
    ran = scrape.of("nnhal_device_executions", device) - before.of("nnhal_device_executions", device)
    assert ran == 3
    assert scrape.of("nnhal_device_staged_bytes", device) == usage.staged_bytes
    assert [scrape.of("nnhal_wire_bytes", device, direction=way) for way in ("up", "down")] == [0, 0]
    assert scrape.of("nnhal_device_prepared_models", device) == usage.prepared_models == 1
    assert scrape.of("nnhal_device_queue", device) == 0


def test_a_scrape_goes_on_without_a_device_that_is_dead_or_silent(short_path: Path) -> None:
    with (
        device_process("cpu_acc", short_path) as (dead, first),
        device_process("cpu_ref", short_path) as (silent, second),
    ):
        fleet = Fleet({"cpu_acc": first, "cpu_ref": second, "absent": Endpoint(short_path / "absent")})
        metrics = Metrics(list, fleet)
        scrape = Scrape(metrics.render())
        devices = ("cpu_acc", "cpu_ref", "absent")
        assert [scrape.of("nnhal_device_up", {"device": name}) for name in devices] == [1, 1, 0]
        os.kill(dead.pid, signal.SIGKILL)
        wait_for_death(dead.pid)
        stop(silent.pid)
        try:
            for _ in range(3):
                scrape = Scrape(metrics.render())
                assert [scrape.of("nnhal_device_up", {"device": name}) for name in devices] == [0, 0, 0]
                assert "nnhal_device_executions_total{" not in scrape.text
        finally:
            os.kill(silent.pid, signal.SIGCONT)
        metrics.close()
        fleet.close()


class Loaded:
    """Models that native clients have loaded, two on each device; ``count`` answers what is asked of direct runs."""

    def __init__(self, fleet: Fleet, stack: ExitStack, count: Callable[[str], bool]) -> None:
        self.asked: list[tuple[str, float]] = []
        self.models = [self._load(name, fleet, stack, count) for name in (*fleet.names, *fleet.names)]

    def _load(self, device: str, fleet: Fleet, stack: ExitStack, count: Callable[[str], bool]) -> LoadedModel:
        model = load_model(onnx_file(shape=(1, 8)), fleet, [device], Options())
        stack.callback(model.close)

        def count_direct_runs(until: float | None = None) -> bool:
            assert until is not None
            self.asked.append((device, until))
            return count(device)

        stack.enter_context(pytest.MonkeyPatch.context()).setattr(model, "count_direct_runs", count_direct_runs)
        return model

    def scrape(self, metrics: Metrics) -> tuple[Scrape, list[str]]:
        """Scrape, and return also the device of each model whose direct runs were asked for."""
        self.asked.clear()
        return Scrape(metrics.render()), [device for device, _ in self.asked]


def counted(scrape: Scrape) -> list[float]:
    """Return whether the direct runs on cpu_acc and on cpu_ref are counted."""
    return [scrape.of("nnhal_device_direct_runs_counted", {"device": name}) for name in ("cpu_acc", "cpu_ref")]


def test_all_that_a_scrape_asks_has_one_deadline(serve: Serve, fleet: Fleet) -> None:
    with ExitStack() as stack:
        loaded = Loaded(fleet, stack, lambda device: device == "cpu_ref")
        _, metrics = stack.enter_context(metered(serve, fleet, clients=NativeClients(models=lambda: loaded.models)))
        before = time.monotonic()
        scrape, asked = loaded.scrape(metrics)
        assert sorted(asked) == ["cpu_acc", "cpu_acc", "cpu_ref", "cpu_ref"]
        (until,) = {until for _, until in loaded.asked}
        assert before < until <= time.monotonic() + 0.5
        assert counted(scrape) == [0, 1]


def test_a_device_that_does_not_tell_direct_runs_keeps_neither_a_scrape_nor_other_devices(
    serve: Serve, fleet: Fleet
) -> None:
    told = threading.Event()
    with ExitStack() as stack:
        stack.callback(told.set)
        loaded = Loaded(fleet, stack, lambda device: device == "cpu_ref" or told.wait(60))
        _, metrics = stack.enter_context(metered(serve, fleet, clients=NativeClients(models=lambda: loaded.models)))
        scrape, asked = loaded.scrape(metrics)
        assert sorted(asked) == ["cpu_acc", "cpu_ref", "cpu_ref"]
        assert counted(scrape) == [0, 1]
        assert [scrape.of("nnhal_device_up", {"device": name}) for name in ("cpu_acc", "cpu_ref")] == [1, 1]
        for _ in range(2):
            _, asked = loaded.scrape(metrics)
            assert sorted(asked) == ["cpu_ref", "cpu_ref"], "a device is asked again before it has answered"
        told.set()
        wait_until(lambda: counted(loaded.scrape(metrics)[0]) == [1, 1], "the device tells what it has run")


def test_metrics_of_a_model_end_with_it(serve: Serve, fleet: Fleet) -> None:
    models: list[ServedModel] = []
    metrics = Metrics(lambda: models, fleet, MetricsOptions(histogram_latencies=True))
    models.append(serve([metrics.requests]))
    infer(models[0])
    assert 'model="m"' in metrics.render().decode()
    models.clear()
    assert 'model="m"' not in metrics.render().decode()
    metrics.close()


def test_prometheus_gets_them_over_http(serve: Serve, fleet: Fleet) -> None:
    with (
        metered(serve, fleet) as (served, metrics),
        HttpServer(TcpListener("127.0.0.1", 0), lambda _: metrics_app(metrics), shared_loop()) as http,
    ):
        infer(served)
        url = f"http://{http.listener.address}"
        answer = httpx.get(f"{url}/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert Scrape(answer.content).of("nv_inference_request_success") == 1
        assert httpx.get(f"{url}/other").status_code == 404
        assert httpx.post(f"{url}/metrics").status_code == 405


def test_scrapes_and_requests_do_not_get_into_each_others_way(serve: Serve, fleet: Fleet) -> None:
    with metered(serve, fleet, MetricsOptions(histogram_latencies=True, summary_latencies=True)) as (served, metrics):

        def client() -> None:
            for _ in range(50):
                infer(served)

        threads = [threading.Thread(target=client) for _ in range(3)]
        for thread in threads:
            thread.start()
        seen = [Scrape(metrics.render()).of("nv_inference_request_success") for _ in range(5)]
        for thread in threads:
            thread.join()
        scrape = Scrape(metrics.render())
    assert seen == sorted(seen)
    assert scrape.of("nv_inference_request_success") == 150
    assert scrape.of("nnhal_partition_runs", partition="1", device="cpu_ref") == 150
    assert scrape.of("nv_inference_request_duration_histogram_us_count") == 150


def test_what_another_process_has_recorded_is_added(serve: Serve, fleet: Fleet) -> None:
    options = MetricsOptions(histogram_latencies=True, summary_latencies=True)
    elsewhere = RequestMetrics(options)
    other = serve([elsewhere])
    with metered(serve, fleet, options) as (served, metrics):
        infer(served)
        for _ in range(2):
            infer(other)
            metrics.requests.add(elsewhere.take())
        metrics.requests.add(elsewhere.take())
        scrape = Scrape(metrics.render())
    assert scrape.of("nnhal_partition_runs", partition="1", device="cpu_ref") == 3
    assert scrape.of("nv_inference_request_duration_histogram_us_count") == 3
    assert scrape.of("nv_inference_request_summary_us_count") == 3
    edges = {"source": "cpu_acc", "destination": "cpu_ref"}
    assert scrape.sum("nnhal_edge_uses", {**M, **edges}) == 3
