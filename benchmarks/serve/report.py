"""Measurements as perf_analyzer reports them, and as JSON.

The order of blocks and the CSV's header are those of perf_analyzer, so that the same programs can read them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from benchmarks.serve.measurement import PERCENTILES, Measurement, Settings
from benchmarks.serve.target import Transport

JSON_VERSION = 1
CSV_HEADER = (
    "Concurrency",
    "Inferences/Second",
    "Client Send",
    "Network+Server Send/Recv",
    "Server Queue",
    "Server Compute Input",
    "Server Compute Infer",
    "Server Compute Output",
    "Client Recv",
    *(f"p{percent} latency" for percent in PERCENTILES),
)
_CALLS = {
    Transport.GRPC: "gRPC",
    Transport.HTTP: "HTTP",
    Transport.NATIVE: "native",
    Transport.IN_PROCESS: "in-process",
    Transport.PING_PONG: "ping-pong and in-process",
}
_WORK = {Transport.GRPC: "(un)marshal request/response", Transport.NATIVE: "copies in/out"}


def settings_lines(settings: Settings, batch: int) -> Iterator[str]:
    """The lines before the first measurement."""
    yield "*** Measurement Settings ***"
    yield f"  Batch size: {batch}"
    yield "  Service Kind: Triton"
    yield '  Using "time_windows" mode for stabilization'
    yield f"  Measurement window: {settings.interval_ms} msec"
    yield "  Using synchronous calls for inference"
    yield f"  Stabilizing using {_figure(settings.percentile)} latency"
    yield ""


def measurement_lines(measurement: Measurement) -> Iterator[str]:
    """The lines of one concurrency."""
    target = measurement.target
    yield f"Request concurrency: {measurement.concurrency}"
    yield "  Client: "
    yield f"    Request count: {measurement.requests}"
    yield f"    Throughput: {measurement.throughput:.6g} infer/sec"
    yield (f"    Avg latency: {measurement.mean_us:.0f} usec (standard deviation {measurement.deviation_us:.0f} usec)")
    for percent, value in measurement.percentiles_us.items():
        yield f"    p{percent} latency: {value:.0f} usec"
    work = measurement.send_us + measurement.receive_us
    yield (
        f"    Avg {_CALLS[target.transport]} time: {measurement.mean_us:.0f} usec "
        f"({_WORK.get(target.transport, 'send/recv')} {work:.0f} usec + "
        f"response wait {max(0.0, measurement.mean_us - work):.0f} usec)"
    )
    server = measurement.server
    if server is not None and server.requests:
        yield "  Server: "
        yield f"    Inference count: {server.inferences}"
        yield f"    Execution count: {server.executions}"
        yield f"    Successful request count: {server.requests}"
        yield (
            f"    Avg request latency: {server.mean_us(server.request_ns):.0f} usec "
            f"(overhead {server.mean_us(server.overhead_ns):.0f} usec"
            f" + queue {server.mean_us(server.queue_ns):.0f} usec"
            f" + compute input {server.mean_us(server.compute_input_ns):.0f} usec"
            f" + compute infer {server.mean_us(server.compute_infer_ns):.0f} usec"
            f" + compute output {server.mean_us(server.compute_output_ns):.0f} usec)"
        )
    if not measurement.stable:
        yield "  Failed to obtain stable measurement: the figures are of the last windows"
    yield ""


def summary_lines(measurements: Sequence[Measurement], percentile: int | None) -> Iterator[str]:
    """A line for each concurrency."""
    yield f"Inferences/Second vs. Client {_figure(percentile, 'Average')} Batch Latency"
    for measurement in measurements:
        yield (
            f"Concurrency: {measurement.concurrency}, throughput: {measurement.throughput:.6g} infer/sec, "
            f"latency {measurement.latency_us(percentile):.0f} usec"
        )
    yield ""


def write_csv(file: TextIO, measurements: Sequence[Measurement]) -> None:
    """A line for each concurrency, microseconds. A percentile that was asked for is one more column."""
    more = sorted({percent for m in measurements for percent in m.percentiles_us} - set(PERCENTILES))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*CSV_HEADER, *(f"p{percent} latency" for percent in more)])
    for measurement in measurements:
        times = [measurement.send_us, measurement.network_us, *_on_server(measurement), measurement.receive_us]
        latencies = [measurement.percentiles_us[percent] for percent in (*PERCENTILES, *more)]
        rounded = (f"{value:.0f}" for value in (*times, *latencies))
        writer.writerow([measurement.concurrency, f"{measurement.throughput:.6g}", *rounded])


def as_json(measurements: Sequence[Measurement], settings: Settings) -> dict[str, Any]:
    """One object for JSON. Times are microseconds unless their names end in ``_ns``."""
    return {
        "version": JSON_VERSION,
        "settings": {
            "interval_ms": settings.interval_ms,
            "percentile": settings.percentile,
            "stability": settings.stability,
            "max_trials": settings.max_trials,
        },
        "measurements": [measurement.as_dict() for measurement in measurements],
    }


def _on_server(measurement: Measurement) -> list[float]:
    server = measurement.server
    if server is None:
        return [0.0] * 4
    parts = (server.queue_ns, server.compute_input_ns, server.compute_infer_ns, server.compute_output_ns)
    return [server.mean_us(part) for part in parts]


def _figure(percentile: int | None, mean: str = "average") -> str:
    return mean if percentile is None else f"p{percentile}"
