"""Metrics, traces and logs of the framework's work: metrics, traces and logs."""

from nnhal_service.observability.log_settings import RequestLog, RuntimeLogSettings
from nnhal_service.observability.metrics import (
    NO_NATIVE_CLIENTS,
    LatestEvents,
    Metrics,
    MetricsOptions,
    NativeClients,
    metrics_app,
    metrics_options,
)
from nnhal_service.observability.request_scope import TRACEPARENT, RequestScope
from nnhal_service.observability.traces import SpanExporter, Tracer, open_exporter

__all__ = [
    "NO_NATIVE_CLIENTS",
    "TRACEPARENT",
    "LatestEvents",
    "Metrics",
    "MetricsOptions",
    "NativeClients",
    "RequestLog",
    "RequestScope",
    "RuntimeLogSettings",
    "SpanExporter",
    "Tracer",
    "metrics_app",
    "metrics_options",
    "open_exporter",
]
