"""Metrics of native clients: their sessions, and runs of models that they have loaded themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nnhal_service.runtime import LoadedModel
from nnhal_service.serving import ClientModelUsage

_TEXT = "of models that native clients have loaded"


@dataclass(frozen=True, slots=True)
class NativeClients:
    """What a scrape asks about native clients."""

    sessions: Callable[[], int] = lambda: 0
    """Counts their sessions."""
    models: Callable[[], Iterable[LoadedModel]] = tuple
    """The models that they have loaded themselves."""
    usage: Callable[[], ClientModelUsage] = ClientModelUsage
    """What has been run of these models and counted so far."""

    def families(self) -> Iterator[Metric]:
        """Yield all metrics."""
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
