"""Prometheus metrics of the framework, its models, the devices and the host."""

from nnhal_service.observability.metrics.collector import (
    NO_NATIVE_CLIENTS,
    LatestEvents,
    Metrics,
    NativeClients,
    metrics_app,
)
from nnhal_service.observability.metrics.options import MetricsOptions, metrics_options

__all__ = [
    "NO_NATIVE_CLIENTS",
    "LatestEvents",
    "Metrics",
    "MetricsOptions",
    "NativeClients",
    "metrics_app",
    "metrics_options",
]
