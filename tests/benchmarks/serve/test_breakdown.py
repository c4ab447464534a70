"""``python -m benchmarks.serve --breakdown``: where the time of a request goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from benchmarks.processes import TracingRefusedError
from benchmarks.serve import Target, Transport
from benchmarks.serve.breakdown import Breakdown, break_down, tables
from benchmarks.serve.breakdown import measured as measured_module
from benchmarks.serve.server import SMALL, BenchServer, serving, small_model
from nnhal_pages.terminal import output_console, show_table
from tests.support.command import benchmark

SECONDS = 0.1
SERVED = [(kind, shared) for kind in (Transport.NATIVE, Transport.GRPC, Transport.HTTP) for shared in (False, True)]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[BenchServer]:
    with serving({SMALL: small_model()}, instances=2) as running:
        yield running


def broken_down(server: BenchServer, kind: Transport, shared: bool, concurrency: int = 1) -> Breakdown:
    return break_down(Target(kind, server.urls[kind], SMALL, shared_memory=shared), concurrency, server, SECONDS)


@pytest.mark.parametrize(("kind", "shared"), SERVED)
def test_stages_threads_and_calls_of_each_transport(server: BenchServer, kind: Transport, shared: bool) -> None:
    found = broken_down(server, kind, shared)
    assert found.requests > 0 and found.rate > 0 and found.mean_us > 0
    assert all(stage.mean_us >= 0 for stage in found.stages)
    assert sum(stage.mean_us for stage in found.stages) > 0
    assert any(stage.name == "device: the run" and stage.mean_us > 0 for stage in found.stages)
    processes = {row.process: [own for own in found.usage if own.process == row.process] for row in found.usage}
    assert list(processes) == ["client", "framework", "cpu_acc"]
    for name in ("client", "cpu_acc") if kind is Transport.NATIVE else processes:
        assert sum(row.processor_us for row in processes[name]) > 0
        assert sum(row.wakes + row.preemptions for row in processes[name]) > 0
        assert sum(row.calls or 0 for row in processes[name]) > 1, "a request is received, and its answer sent"
    assert found.calls is not None and found.uncounted == ""
    received = [row["cpu_acc"] for name, row in found.calls.items() if name.startswith("recv")]
    assert sum(received) >= 1, "the device gets a datagram for each request"
    assert list(server.traces.iterdir()) == []


def test_stages_add_up_to_the_latency_of_traced_requests(server: BenchServer) -> None:
    found = broken_down(server, Transport.GRPC, False)
    assert all(stage.p50_us >= 0 for stage in found.stages)
    assert [stage.name.partition(":")[0] for stage in found.stages] == [
        "client to grpc front",
        *["framework"] * 3,
        "framework to device and back",
        *["device"] * 2,
        "framework",
        "grpc front to client",
    ]


def test_several_at_a_time(server: BenchServer) -> None:
    found = broken_down(server, Transport.HTTP, False, concurrency=2)
    assert sum(row.threads for row in found.usage if (row.process, row.role) == ("client", "main")) == 2


def test_without_ptrace_the_rest_is_measured_and_the_reason_said(
    server: BenchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> None:
        raise TracingRefusedError("ptrace is refused: Operation not permitted")

    monkeypatch.setattr(measured_module, "counting", refused)
    found = broken_down(server, Transport.HTTP, False)
    assert found.calls is None and found.stages
    for table in tables(found):
        show_table(table, output_console())
    printed = capsys.readouterr().out
    assert "System calls are not counted: ptrace is refused: Operation not permitted" in printed
    assert "system calls of a request" not in printed


def test_the_command_prints_tables_of_a_model_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "mine.onnx"
    onnx.save(small_model(), file)
    done = benchmark("serve", "--breakdown", "-m", str(file), "-i", "http", "--shared-memory", "none", "-p", "100")
    assert done.returncode == 0, done.stderr
    for words in (
        "http, 1 at a time: ",
        "│ device: the run",
        "│ framework │ all ",
        "│ sendto ",
        "│ cpu_acc   │ poller ",
    ):
        assert words in done.stdout


def test_the_command_prints_json() -> None:
    done = benchmark("serve", "--breakdown", "-i", "native", "--shared-memory", "system", "-p", "100", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (breakdown,) = answer["breakdowns"]
    assert answer["version"] == 1 and breakdown["target"]["transport"] == "native"
    assert {row["process"] for row in breakdown["usage"]} == {"client", "framework", "cpu_acc"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-u", "127.0.0.1:1", "-m", "x"), "expected neither -u nor -f nor a floor with -i"),
        (("-i", "grpc,in_process"), "expected neither -u nor -f nor a floor with -i"),
        (("-m", "/nowhere.onnx"), "/nowhere.onnx: No such file"),
        (("-m", __file__), "expected an ONNX model"),
    ],
)
def test_what_cannot_be_broken_down_is_said_before_anything_starts(arguments: tuple[str, ...], words: str) -> None:
    done = benchmark("serve", "--breakdown", *arguments)
    assert done.returncode == 1 and words in done.stderr
