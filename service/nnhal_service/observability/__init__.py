"""What the framework says of what it does: metrics, traces and logs."""

from nnhal_service.observability.log_settings import RequestLog, RuntimeLogSettings
from nnhal_service.observability.metrics import Metrics
from nnhal_service.observability.metrics_app import metrics_app
from nnhal_service.observability.metrics_options import MetricsOptions, metrics_options
from nnhal_service.observability.native_clients import NO_NATIVE_CLIENTS, NativeClients
from nnhal_service.observability.otel import open_exporter
from nnhal_service.observability.request_scope import TRACEPARENT, RequestScope
from nnhal_service.observability.tracer import SpanExporter, Tracer

__all__ = [
    "NO_NATIVE_CLIENTS",
    "TRACEPARENT",
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
