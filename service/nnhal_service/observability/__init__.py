"""What the framework says of what it does: metrics, traces and logs."""

from nnhal_service.observability.log_settings import RequestLog, RuntimeLogSettings
from nnhal_service.observability.metrics import Metrics
from nnhal_service.observability.metrics_options import MetricsOptions, metrics_options
from nnhal_service.observability.otel import open_exporter
from nnhal_service.observability.request_scope import TRACEPARENT, RequestScope
from nnhal_service.observability.tracer import SpanExporter, Tracer

__all__ = [
    "TRACEPARENT",
    "Metrics",
    "MetricsOptions",
    "RequestLog",
    "RequestScope",
    "RuntimeLogSettings",
    "SpanExporter",
    "Tracer",
    "metrics_options",
    "open_exporter",
]
