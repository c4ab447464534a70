"""Traces of requests, in files and as spans of OpenTelemetry."""

from nnhal_service.observability.traces.otel import open_exporter
from nnhal_service.observability.traces.tracer import SpanExporter, Tracer

__all__ = ["SpanExporter", "Tracer", "open_exporter"]
