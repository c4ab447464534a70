"""Spans as an OpenTelemetry collector receives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from structlog.testing import capture_logs

from nnhal_service.observability import RequestScope, Tracer, open_exporter
from nnhal_service.serving import InferenceRequest, ServingError
from tests.service.observability.conftest import Serve, infer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans that it receives, and the name of the service that sent them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()

    def Export(  # noqa: N802 - named as the proto does
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            values = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
            self.services.add(values["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    server, found = grpc.server(ThreadPoolExecutor(2)), Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(found, server)  # type: ignore[no-untyped-call]
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    yield found
    server.stop(0).wait()


def test_spans_are_of_the_client_the_request_its_parts_and_its_steps(serve: Serve, collector: Collector) -> None:
    tracer = Tracer(lambda _: True, exporter=open_exporter(os.environ))
    served = serve(samplers=[tracer.sampler])
    with RequestScope(f"00-{TRACE}-{SPAN}-01"):
        infer(served, "7")
    infer(served, "not sampled by anybody")
    with RequestScope(f"00-{TRACE}-{SPAN}-00"):
        infer(served, "not sampled by its client")
    tracer.close()
    by_name = {span.name: span for span in collector.spans}
    assert len(by_name) == len(collector.spans)
    assert collector.services == {"nnhal"}
    parts = ["queue", "compute input", "compute infer", "compute output"]
    steps = ["step 0 on cpu_acc", "step 1 on cpu_ref"]
    assert sorted(by_name) == sorted(["infer m", *parts, *steps])
    request, run = by_name["infer m"], by_name["compute infer"]
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert request.parent_span_id.hex() == SPAN and request.kind == Span.SPAN_KIND_SERVER
    assert {by_name[name].parent_span_id for name in parts} == {request.span_id}
    assert {by_name[name].parent_span_id for name in steps} == {run.span_id}
    attributes = {entry.key: entry.value for entry in request.attributes}
    assert (attributes["model_name"].string_value, attributes["request_id"].string_value) == ("m", "7")
    for inner, outer in [*((name, request) for name in parts), *((name, run) for name in steps)]:
        span = by_name[inner]
        assert outer.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= outer.end_time_unix_nano


def test_what_the_settings_sample_is_exported_too_and_failures_say_why(serve: Serve, collector: Collector) -> None:
    tracer = Tracer(
        lambda _: True,
        start={"trace_level": ("TIMESTAMPS",), "trace_rate": ("2",)},
        exporter=open_exporter(os.environ),
    )
    served = serve(samplers=[tracer.sampler])
    infer(served)
    with pytest.raises(ServingError):
        served.infer_and_wait(InferenceRequest({}))
    tracer.close()
    (span,) = collector.spans
    assert span.status.code == Status.STATUS_CODE_ERROR and "x" in span.status.message
    assert not span.parent_span_id


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_exported_unless_the_environment_asks_for_it(variables: dict[str, str]) -> None:
    with capture_logs() as logs:
        assert open_exporter(variables) is None
    assert logs == []


def test_another_protocol_is_a_warning() -> None:
    with capture_logs() as logs:
        assert open_exporter({ENDPOINT: "http://a", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}) is None
    assert [(line["log_level"], line["protocol"]) for line in logs] == [("warning", "http/protobuf")]


def test_without_an_endpoint_nothing_is_imported() -> None:
    program = (
        "import sys; from nnhal_service.observability import open_exporter; "
        "assert open_exporter({}) is None; "
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_the_extra_there_is_a_warning() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None; sys.modules['opentelemetry.sdk'] = None\n"
        "from structlog.testing import capture_logs; from nnhal_service.observability import open_exporter\n"
        f"with capture_logs() as logs: assert open_exporter({{'{ENDPOINT}': 'http://a'}}) is None\n"
        "(line,) = logs; assert 'pip install ' in line['expected'] and '[otel]' in line['expected'], logs"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
