"""``python -m benchmarks.serve``: measurements of a real server, and their reports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.generators import BenchError
from benchmarks.serve import FLOORS, Load, Settings, Target, Transport, measure
from benchmarks.serve.server import SMALL, BenchServer, serving, small_model
from tests.support.command import benchmark

ONE = Settings(interval_ms=60, stability=1000.0)
"""Settings that end after three windows, whether stable or not."""
FAST = ("-p", "60", "-s", "1000")
SERVED = [(kind, shared) for kind in (Transport.NATIVE, Transport.GRPC, Transport.HTTP) for shared in (False, True)]
CSV_HEADER = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency"
)
"""The report as perf_analyzer writes it."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[BenchServer]:
    with serving({SMALL: small_model()}, instances=2) as running:
        yield running


def _left_over() -> list[str]:
    return [path.name for path in Path("/dev/shm").glob("nnhal-bench-*")]


@pytest.mark.parametrize(("kind", "shared"), SERVED)
def test_a_served_model_is_measured_over_each_transport(server: BenchServer, kind: Transport, shared: bool) -> None:
    measurement = measure(Target(kind, server.urls[kind], SMALL, shared_memory=shared), 2, ONE)
    assert measurement.requests > 0 and measurement.throughput > 0
    assert measurement.percentiles_us[50] <= measurement.percentiles_us[99]
    assert measurement.send_us + measurement.receive_us <= measurement.mean_us
    assert measurement.server is not None
    assert measurement.server.requests >= measurement.requests, "the server counts what the clients do"
    assert measurement.server.request_ns >= measurement.server.compute_infer_ns > 0
    assert _left_over() == []


@pytest.mark.parametrize("floor", sorted(FLOORS))
def test_a_floor_needs_no_server(server: BenchServer, floor: Transport) -> None:
    measurement = measure(Target(floor, "", str(server.models[SMALL])), 1, ONE)
    assert measurement.requests > 0 and measurement.server is None


def test_a_model_of_a_file_is_measured_natively(server: BenchServer) -> None:
    target = Target(Transport.NATIVE, server.urls[Transport.NATIVE], str(server.models[SMALL]))
    assert measure(target, 1, ONE).requests > 0


@pytest.mark.parametrize(("kind", "shared"), SERVED)
def test_a_model_that_is_not_there_is_one_error(server: BenchServer, kind: Transport, shared: bool) -> None:
    with pytest.raises(BenchError, match="none"):
        Load([Target(kind, server.urls[kind], "none", shared_memory=shared)] * 2)


def test_a_server_that_is_not_there_is_one_error() -> None:
    with pytest.raises(BenchError, match="UNAVAILABLE"):
        Load([Target(Transport.GRPC, "127.0.0.1:1", SMALL)] * 1)


def test_a_load_generator_that_is_killed_is_said_and_leaves_no_file(server: BenchServer) -> None:
    load = Load([Target(Transport.GRPC, server.urls[Transport.GRPC], SMALL, shared_memory=True)] * 2)
    load.generators[0].process.kill()
    with pytest.raises(BenchError, match="status -9"):
        load.measure(0.05)
    load.close()
    assert all(each.process.poll() is not None for each in load.generators)
    assert _left_over() == []


def test_the_report_has_perf_analyzers_blocks_in_their_order(server: BenchServer) -> None:
    done = benchmark("serve", "-u", server.urls[Transport.GRPC], "-m", SMALL, "--concurrency-range", "1:2", *FAST)
    assert done.returncode == 0, done.stderr
    order = [
        r"\*\*\* Measurement Settings \*\*\*",
        r"  Batch size: 1",
        r"Request concurrency: 1",
        r"  Client: ",
        r"    Request count: \d+",
        r"    Throughput: [\d.e+]+ infer/sec",
        r"    Avg latency: \d+ usec \(standard deviation \d+ usec\)",
        *(rf"    p{percent} latency: \d+ usec" for percent in (50, 90, 95, 99)),
        r"    Avg gRPC time: \d+ usec \(\(un\)marshal request/response \d+ usec \+ response wait \d+ usec\)",
        r"  Server: ",
        r"    Inference count: \d+",
        r"    Execution count: \d+",
        r"    Successful request count: \d+",
        r"    Avg request latency: \d+ usec \(overhead \d+ usec \+ queue \d+ usec \+ compute input \d+ usec \+ "
        r"compute infer \d+ usec \+ compute output \d+ usec\)",
        r"Request concurrency: 2",
        r"Inferences/Second vs\. Client Average Batch Latency",
        r"Concurrency: 1, throughput: [\d.e+]+ infer/sec, latency \d+ usec",
        r"Concurrency: 2, throughput: [\d.e+]+ infer/sec, latency \d+ usec",
    ]
    position = 0
    for line in order:
        found = re.compile(rf"^{line}$", re.MULTILINE).search(done.stdout, position)
        assert found, f"{line} is missing after {done.stdout[:position][-80:]!r}"
        position = found.end()


def test_json_has_every_transport_with_its_figures() -> None:
    done = benchmark("serve", "--json", *FAST)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["version"] == 1 and answer["settings"]["interval_ms"] == 60
    measured = [(m["target"]["transport"], m["target"]["shared_memory"]) for m in answer["measurements"]]
    assert measured == [(str(kind), shared) for kind, shared in SERVED]
    for measurement in answer["measurements"]:
        assert set(measurement) == {
            "target",
            "concurrency",
            "requests",
            "throughput",
            "mean_us",
            "deviation_us",
            "percentiles_us",
            "send_us",
            "receive_us",
            "stable",
            "server",
        }
        assert list(measurement["percentiles_us"]) == ["p50", "p90", "p95", "p99"]


def test_csv_has_perf_analyzers_header_and_a_line_for_each_concurrency(server: BenchServer, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    address = server.urls[Transport.HTTP]
    done = benchmark(
        *("serve", "-u", address, "-m", SMALL, "-i", "http", "--concurrency-range", "1:3:2"),
        *("-f", str(file), *FAST),
    )
    assert done.returncode == 0, done.stderr
    header, *lines = file.read_text().splitlines()
    assert header == CSV_HEADER
    rows = list(csv.DictReader([header, *lines]))
    assert [row["Concurrency"] for row in rows] == ["1", "3"]
    assert all(float(row["Inferences/Second"]) > 0 and float(row["p50 latency"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--concurrency-range", "4:1"), "the end is below the start"),
        (("--concurrency-range", "0"), "expected START:END:STEP"),
        (("-i", "carrier-pigeon"), "expected native, grpc, http, in_process, ping_pong"),
        (("--shared-memory", "cuda"), "expected none, system, both"),
        (("--shape", "x"), "expected INPUT:1x3x224x224"),
        (("--dim", "batch"), "expected NAME=N"),
        (("-m", "small", "--dim", "batch=1"), "got model 'small', expected a file"),
        (("-H", "token"), "expected NAME:VALUE"),
        (("-u", "127.0.0.1:1"), "-u needs the name of a model"),
        (("-m", "small"), "needs a server"),
        (("-f", "out.csv"), "-f has columns for one transport"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_starts(arguments: tuple[str, ...], words: str) -> None:
    done = benchmark("serve", *arguments)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
