"""The metrics of the framework, for Prometheus.

Those of inference are called as Triton calls them, without the ending ``_total`` that Prometheus wants of a counter.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nnhal_service.observability.client_models import client_model_families
from nnhal_service.observability.devices import DeviceUsages
from nnhal_service.observability.durations import KINDS, LABELS, Durations, Key
from nnhal_service.observability.host import Host
from nnhal_service.observability.metrics_options import MetricsOptions
from nnhal_service.observability.runs import Runs
from nnhal_service.runtime import Fleet
from nnhal_service.serving import (
    ClientModelUsage,
    DurationStatistics,
    Executed,
    Finished,
    ModelStatistics,
    ServedModel,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BARE_COUNTER = re.compile(rb"^(# TYPE nv_\w+) untyped$", re.MULTILINE)
_DEFAULTS = MetricsOptions()
_DURATION_TEXT = {
    "request": "Cumulative inference request duration in microseconds (includes cached requests)",
    "queue": "Cumulative inference queuing duration in microseconds (includes cached requests)",
    "compute_input": "Cumulative compute input duration in microseconds (does not include cached requests)",
    "compute_infer": "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "compute_output": "Cumulative inference compute output duration in microseconds (does not include cached requests)",
}


class Metrics(Collector):
    """An observer of served models, and what a scrape gets. Safe to use from several threads."""

    def __init__(
        self,
        models: Callable[[], Iterable[ServedModel]],
        fleet: Fleet,
        options: MetricsOptions = _DEFAULTS,
        sessions: Callable[[], int] = lambda: 0,
        client_models: Callable[[], ClientModelUsage] = ClientModelUsage,
    ) -> None:
        """``models`` are those that are served, asked for at each scrape; ``sessions`` counts native clients, and
        ``client_models`` what has been run of models that they have loaded.
        """
        self._models = models
        self._options = options
        self._sessions = sessions
        self._client_models = client_models
        self._durations = Durations(options)
        self._has_durations = options.summary_latencies or options.histogram_latencies
        self._runs = Runs()
        self._devices = DeviceUsages(fleet)
        self._host = Host()
        self._scrape = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def executed(self, executed: Executed) -> None:
        """See Observer."""
        self._runs.record(executed)
        if self._has_durations and executed.timing is not None:
            self._durations.record((executed.model_name, executed.model_version), executed.timing)

    def finished(self, finished: Finished) -> None:
        """See Observer."""
        if self._has_durations and finished.timing is not None:
            self._durations.record((finished.model_name, finished.model_version), finished.timing)

    def render(self) -> bytes:
        """All of them in Prometheus' text format, 0.0.4. Waits for devices that are silent, for half a second."""
        with self._scrape:
            text = generate_latest(self._registry)
        # A counter would get its ending; as a family without a type it has the right name, and here its type.
        return _BARE_COUNTER.sub(rb"\1 counter", text)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the devices."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families."""
        statistics: dict[Key, ModelStatistics] = {}
        pools = GaugeMetricFamily(
            "nnhal_pool_bytes", "Memory that the framework has allocated", labels=[*LABELS, "pool"]
        )
        for model in self._models():
            key = (model.name, model.version)
            statistics[key] = model.statistics()
            pools.add_metric((*key, "arena"), model.arena_bytes)
        yield from self._inference(statistics)
        yield from self._durations.families(statistics)
        yield from self._host.families()
        yield from self._runs.families(statistics)
        yield pools
        yield from client_model_families(self._client_models())
        yield from self._devices.families()
        yield GaugeMetricFamily("nnhal_native_sessions", "Sessions of native clients", self._sessions())

    def close(self) -> None:
        """Ask devices no more; harmless when repeated."""
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
            "nv_inference_request_failure", "Number of failed inference requests, all batch sizes", "unknown"
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
    """The sum of one kind, microseconds."""

    def total(statistics: ModelStatistics) -> float:
        duration: DurationStatistics = getattr(statistics, "success" if kind == "request" else kind)
        return duration.ns // 1000

    return total
