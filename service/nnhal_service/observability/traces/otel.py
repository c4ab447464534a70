"""Traces as spans of OpenTelemetry, if the extra ``otel`` is installed and an endpoint is configured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nnhal.reports import wire_bytes_of
from nnhal_hosting.extras import install_command
from nnhal_hosting.logs import get_logger
from nnhal_service.observability.traces.request_trace import RequestTrace, SpanExporter

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc")
_log = get_logger(__name__)


def open_exporter(environment: Mapping[str, str]) -> SpanExporter | None:
    """Open an exporter by the variables of OpenTelemetry's specification; None if they name no endpoint, or disable it.

    The SDK itself reads further variables: headers, certificates, batches, OTEL_RESOURCE_ATTRIBUTES. Returns None and
    logs a warning if the extra is not installed or the protocol is not gRPC.
    """
    if not any(environment.get(name) for name in _ENDPOINTS):
        return None
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "grpc")
    if protocol != "grpc":
        _log.warning("no spans are exported: the protocol is not supported", protocol=protocol, expected="grpc")
        return None
    if not all(_is_installed(package) for package in _PACKAGES):
        _log.warning("no spans are exported: the extra is not installed", expected=install_command("otel"))
        return None
    return _OtelExporter(_provider())


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "nnhal"}))
    provider = TracerProvider(ALWAYS_ON, resource)  # the tracer has sampled what comes here
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class _OtelExporter:
    """Exports a span for each request, with a child for each part, and within the run a child for each step."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("nnhal")

    def export(self, trace: RequestTrace) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        shift = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        request = self._tracer.start_span(
            f"infer {trace.model_name}",
            _remote(trace),
            SpanKind.SERVER,
            _attributes(trace),
            start_time=trace.started_ns + shift,
        )
        if trace.error:
            request.set_status(Status(StatusCode.ERROR, trace.error))
        inside = set_span_in_context(request)
        for part in trace.parts:
            span = self._tracer.start_span(part.name, inside, start_time=part.started_ns + shift)
            if part.name == "compute infer":
                self._add_steps(trace, span, shift)
            span.end(part.ended_ns + shift)
        request.end(trace.ended_ns + shift)

    def close(self) -> None:
        self._provider.shutdown()

    def _add_steps(self, trace: RequestTrace, run: Span, shift: int) -> None:
        from opentelemetry.trace import set_span_in_context

        inside = set_span_in_context(run)
        for step in trace.report.steps if trace.report is not None else ():
            if step.started_ns >= 0:
                attributes: dict[str, AttributeValue] = {
                    "nnhal.step": step.step,
                    "nnhal.device": step.device,
                    "nnhal.copied_bytes": step.copied_bytes,
                    "nnhal.time_on_device_ns": step.time_on_device_ns,
                }
                sent = wire_bytes_of(step.copies)
                if any(sent):
                    attributes |= {"nnhal.wire_up_bytes": sent.up, "nnhal.wire_down_bytes": sent.down}
                name = f"step {step.step} on {step.device}"
                span = self._tracer.start_span(name, inside, attributes=attributes, start_time=step.started_ns + shift)
                span.end(step.ended_ns + shift)


def _remote(trace: RequestTrace) -> Context | None:
    """Return a context with the client's span as the parent."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if trace.parent is None:
        return None
    flags = TraceFlags(TraceFlags.SAMPLED if trace.parent.is_sampled else TraceFlags.DEFAULT)
    context = SpanContext(int(trace.parent.trace_id, 16), int(trace.parent.span_id, 16), True, flags)
    return set_span_in_context(NonRecordingSpan(context))


def _attributes(trace: RequestTrace) -> dict[str, AttributeValue]:
    return {
        "model_name": trace.model_name,
        "model_version": trace.model_version,
        "request_id": trace.request_id,
        "nnhal.batch_size": trace.batch_size,
    }
