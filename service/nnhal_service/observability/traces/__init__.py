"""Traces of requests, in files and as spans of OpenTelemetry."""

from nnhal_service.observability.traces.otel import open_exporter
from nnhal_service.observability.traces.request_trace import SpanExporter
from nnhal_service.observability.traces.tracer import Tracer

__all__ = ["SpanExporter", "Tracer", "open_exporter"]
