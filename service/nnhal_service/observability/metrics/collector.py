"""The metrics of the framework in Prometheus' format.

Metrics of inference have Triton's names, without the ending ``_total`` that Prometheus demands of counters.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nnhal_hosting.memory_bounds import MemoryBounds
from nnhal_service.observability.metrics.devices import DeviceQuestions, device_families
from nnhal_service.observability.metrics.durations import KINDS, LABELS, Key
from nnhal_service.observability.metrics.options import MetricsOptions
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.runtime import Fleet, LoadedModel
from nnhal_service.serving import (
    ClientModelUsage,
    DurationStatistics,
    ModelStatistics,
    ServedModel,
)
from nnhal_service.serving.history.refused_calls import RefusedCalls

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE_SECONDS = 0.5
"""The time that all devices together may take to answer a scrape."""
_BARE_COUNTER = re.compile(rb"^(# TYPE nv_\w+) untyped$", re.MULTILINE)
_DEFAULTS = MetricsOptions()
_DURATION_TEXT = {
    "request": "Cumulative inference request duration in microseconds (includes cached requests)",
    "queue": "Cumulative inference queuing duration in microseconds (includes cached requests)",
    "compute_input": "Cumulative compute input duration in microseconds (does not include cached requests)",
    "compute_infer": "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "compute_output": "Cumulative inference compute output duration in microseconds (does not include cached requests)",
}
_IDLE = (3, 4)
"""Columns idle and iowait of the line ``cpu`` in /proc/stat."""
_COUNTED = 8
"""Columns that are added up; the later ones are included in these."""
_UNLOADED = "unloaded"
"""The event of a model after which its earlier ones are dropped."""
_TEXT = "of models that native clients have loaded"
LatestEvents = Callable[[], Mapping[tuple[str, str], float]]
"""Says when each kind of event last happened to each device or model, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class NativeClients:
    """Figures of native clients that a scrape asks for."""

    sessions: Callable[[], int] = lambda: 0
    """Counts their sessions."""
    models: Callable[[], Iterable[LoadedModel]] = tuple
    """The models that they have loaded themselves."""
    usage: Callable[[], ClientModelUsage] = ClientModelUsage
    """What has been run of these models and counted so far."""

    def families(self) -> Iterator[Metric]:
        usage = self.usage()
        runs = usage.runs
        yield CounterMetricFamily("nnhal_client_model_runs", f"Runs {_TEXT}", runs.runs)
        yield CounterMetricFamily("nnhal_client_model_failed_runs", f"Runs that failed, {_TEXT}", runs.failed_runs)
        yield CounterMetricFamily(
            "nnhal_client_model_seconds", f"Time of the runs that succeeded, {_TEXT}", runs.duration_ns / 1e9
        )
        steps = CounterMetricFamily("nnhal_client_model_partition_runs", f"Runs of steps {_TEXT}", labels=["device"])
        for device, count in sorted(usage.steps.items()):
            steps.add_metric([device], count)
        yield steps
        yield GaugeMetricFamily("nnhal_native_sessions", "Sessions of native clients", self.sessions())


NO_NATIVE_CLIENTS = NativeClients()


class Host:
    """Reads /proc. Utilisation is that since the last time it was read, or since the start."""

    def __init__(self, proc: Path = Path("/proc"), memory: MemoryBounds | None = None) -> None:
        """Raises OSError if the directory does not exist."""
        self._proc = proc
        self._groups = memory or MemoryBounds()
        self._last = self._times()

    def families(self) -> Iterator[Metric]:
        """Yield the utilisation of all processors together, 0 to 1, and memory. Raises OSError."""
        busy, total = self._times()
        passed = total - self._last[1]
        utilization = (busy - self._last[0]) / passed if passed > 0 else 0.0
        self._last = busy, total
        memory = self._memory()
        most = memory["MemTotal"]
        yield GaugeMetricFamily("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", utilization)
        yield GaugeMetricFamily("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", most)
        used = most - memory["MemAvailable"]
        yield GaugeMetricFamily("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", used)
        limits = [pair for pair in self._groups.group_limits() if pair[1] < most]
        used, limit = min(limits, key=lambda pair: pair[1], default=(used, most))  # the tightest; without any the host
        text = "Bytes of memory that the framework's container or service may use, those of the host without a limit"
        yield GaugeMetricFamily("nnhal_memory_limit_bytes", text, limit)
        yield GaugeMetricFamily("nnhal_memory_used_bytes", "Bytes that are used of nnhal_memory_limit_bytes", used)

    def _times(self) -> tuple[int, int]:
        line = (self._proc / "stat").read_text().split("\n", 1)[0]
        ticks = [int(text) for text in line.split()[1:]][:_COUNTED]
        total = sum(ticks)
        return total - sum(ticks[column] for column in _IDLE), total

    def _memory(self) -> dict[str, int]:
        """Return bytes by the names of /proc/meminfo."""
        lines = (self._proc / "meminfo").read_text().splitlines()
        return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}


class Metrics(Collector):
    """Renders scrapes of served models. Safe to use from several threads."""

    def __init__(
        self,
        models: Callable[[], Iterable[ServedModel]],
        fleet: Fleet,
        options: MetricsOptions = _DEFAULTS,
        clients: NativeClients = NO_NATIVE_CLIENTS,
        collect: Callable[[], None] = lambda: None,
        events: LatestEvents = dict,
        refused: RefusedCalls | None = None,
    ) -> None:
        """``models`` yields those that are served; it is called twice at each scrape. ``collect`` is called before,
        to have other processes add what they have counted. ``events`` tells what has last happened when.
        """
        self._models = models
        self._options = options
        self._clients = clients
        self._collect = collect
        self._events = events
        self._refused = refused or RefusedCalls()
        self.requests = RequestMetrics(options)
        """The observer of the models."""
        self._devices = DeviceQuestions(fleet)
        self._host = Host()
        self._scrape = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format, 0.0.4. Waits at most half a second for silent devices."""
        with self._scrape:
            self._collect()
            text = generate_latest(self._registry)
        # As counters they would get the ending; so they are families without a type, which is put in here.
        return _BARE_COUNTER.sub(rb"\1 counter", text)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not ask the devices."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all families. Direct runs that a device does not tell in time are left for a later scrape."""
        loaded = [*(model.loaded for model in self._models()), *self._clients.models()]
        answers = self._devices.ask(loaded, time.monotonic() + _PATIENCE_SECONDS)
        statistics: dict[Key, ModelStatistics] = {}
        pools = GaugeMetricFamily(
            "nnhal_pool_bytes", "Memory that the framework has allocated", labels=[*LABELS, "pool"]
        )
        substitutes = GaugeMetricFamily(
            "nnhal_substitute_bytes", "Constants of plans that are kept ready for the death of a device", labels=LABELS
        )
        oldest = GaugeMetricFamily(
            "nnhal_oldest_request_seconds",
            "Age of the oldest request that waits or runs, without runs of native clients; 0 without one",
            labels=LABELS,
        )
        text = "Bytes that were copied in runs: between_devices, or to and from clients"
        copied = CounterMetricFamily("nnhal_copied_bytes", text, labels=[*LABELS, "where"])
        text = "Bytes of nnhal_copied_bytes that processes of devices copied"
        staged = CounterMetricFamily("nnhal_staged_bytes", text, labels=LABELS)
        sequences = GaugeMetricFamily("nnhal_sequences", "Sequences of requests that have not ended", labels=LABELS)
        for model in self._models():
            key = (model.name, model.version)
            statistics[key] = model.statistics(ask_devices=False)
            pools.add_metric((*key, "arena"), model.arena_bytes)
            substitutes.add_metric(key, model.substitute_bytes)
            oldest.add_metric(key, model.oldest_request_ns / 1e9)
            bytes_copied = statistics[key].copied
            copied.add_metric((*key, "between_devices"), bytes_copied.between)
            copied.add_metric((*key, "clients"), bytes_copied.clients)
            staged.add_metric(key, bytes_copied.staged)
            if model.config.sequences is not None:
                sequences.add_metric(key, model.sequences)
        yield from self._inference(statistics)
        yield from self.requests.durations.families(statistics)
        yield from self._host.families()
        yield from self.requests.runs.families(statistics)
        text = "Calls that were refused before a model ran"
        refused = CounterMetricFamily("nnhal_refused", text, labels=["reason", "client"])
        for key, each in sorted(self._refused.counts.items()):
            refused.add_metric(key, each.calls)
        yield refused
        yield pools
        yield substitutes
        yield oldest
        yield copied
        yield staged
        yield sequences
        latest = GaugeMetricFamily(
            "nnhal_last_event_seconds",
            "When an event of a kind last happened to a device or a model, in seconds since the epoch",
            labels=["kind", "subject"],
        )
        events, names = self._events(), {*answers, *(name for name, _ in statistics)}
        for (kind, subject), seconds in events.items():
            if subject in names or seconds >= events.get((_UNLOADED, subject), 0.0):
                latest.add_metric((kind, subject), seconds)
        yield latest
        yield from self._clients.families()
        yield from device_families(answers)

    def close(self) -> None:
        """Stop asking devices; harmless when repeated."""
        self._devices.close()

    def _inference(self, statistics: dict[Key, ModelStatistics]) -> Iterator[Metric]:
        def family(name: str, text: str, value: Callable[[ModelStatistics], float]) -> Metric:
            metric = Metric(name, text, "unknown")
            for key, of_model in statistics.items():
                metric.add_sample(name, dict(zip(LABELS, key, strict=True)), value(of_model))
            return metric

        yield family(
            "nv_inference_request_success", "Number of successful inference requests, all batch sizes", _successes
        )
        failures = Metric(
            "nv_inference_request_failure",
            "Number of failed inference requests, all batch sizes; REJECTED before they ran, CANCELED, BACKEND for a "
            "failure of a device, OTHER for a request that does not fit the model",
            "unknown",
        )
        for (model, version), of_model in statistics.items():
            for reason, count in of_model.failures.items():
                labels = {"model": model, "version": version, "reason": reason.value}
                failures.add_sample(failures.name, labels, count)
        yield failures
        yield family(
            "nv_inference_count",
            "Number of inferences performed (does not include cached requests)",
            lambda of_model: of_model.inference_count,
        )
        yield family(
            "nv_inference_exec_count",
            "Number of model executions performed (does not include cached requests)",
            lambda of_model: of_model.execution_count,
        )
        pending = GaugeMetricFamily(
            "nv_inference_pending_request_count",
            "Instantaneous number of pending requests awaiting execution per-model.",
            labels=LABELS,
        )
        for key, of_model in statistics.items():
            pending.add_metric(key, of_model.pending)
        yield pending
        if self._options.counter_latencies:
            for kind in KINDS:
                yield family(f"nv_inference_{kind}_duration_us", _DURATION_TEXT[kind], _duration(kind))


def _successes(statistics: ModelStatistics) -> float:
    return statistics.success.count


def _duration(kind: str) -> Callable[[ModelStatistics], float]:
    """Return what reads the sum of one kind of duration, in microseconds."""

    def total(statistics: ModelStatistics) -> float:
        duration: DurationStatistics = getattr(statistics, "success" if kind == "request" else kind)
        return duration.ns // 1000

    return total


def metrics_app(metrics: Metrics) -> ASGIApp:
    """Make an application that serves ``GET /metrics`` and nothing else. Each scrape runs in a thread."""

    # Without the metrics server nothing imports an HTTP server, which would take as long as the rest together.
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    def scrape(_: Request) -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/metrics", scrape)])
