"""Runs of models that native clients have loaded themselves."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from nnhal_service.serving import ClientModelUsage

_TEXT = "of models that native clients have loaded"


def client_model_families(usage: ClientModelUsage) -> Iterator[Metric]:
    """All metrics of what has been run so far."""
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
