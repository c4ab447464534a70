"""``python -m benchmarks.serve``: latency and throughput of a served model over each transport.

HTTP and gRPC are measured by Triton's perf_analyzer, which is installed into an environment of its own
(``NNHAL_PERF_ANALYZER`` names another), the native client by a loop of our own. Tensors travel as bytes, or lie in
memory that client and server share.
"""

from __future__ import annotations

import csv
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import onnx
import typer

from benchmarks.__main__ import run
from benchmarks.environments import environments_directory, interpreter
from benchmarks.load import GRPC, HTTP, NATIVE, Load, Target
from benchmarks.models import rectifier
from benchmarks.testbeds import serving
from nnhal_client import connect
from nnhal_tools.bench.runner import Report, figure_table, say

_REQUIREMENTS = ("--no-deps", "tritonclient==2.34.0", "nvidia-cuda-runtime-cu12==12.9.79")
"""Later releases of tritonclient have no perf_analyzer in them, which is linked to libraries of CUDA."""
_VARIABLE = "NNHAL_PERF_ANALYZER"
_SMALL = "small"
_MOST_INSTANCES = 4
"""More runs at a time than these say nothing more about a server of one machine."""
_STABLE_PERCENT = 999
"""perf_analyzer would measure until windows agree, which they may never do on a busy machine."""
_WAYS = {"http": HTTP, "grpc": GRPC, "native": NATIVE}
_COLUMNS = ("p50 latency", "p90 latency", "p99 latency")


class _Row(NamedTuple):
    """One transport at one concurrency; times are µs."""

    title: str
    concurrency: int
    rate: float
    p50: float
    p90: float
    p99: float


class _Addresses(NamedTuple):
    """Addresses of a model's server: HOST:PORT, the framework's directory, or nothing if it is not measured there."""

    http: str
    grpc: str
    native: str


def serve(
    url: Annotated[str, typer.Option("-u", "--url", help="HOST:PORT, or the framework's directory for native.")] = "",
    model: Annotated[str, typer.Option("-m", "--model", help="The model's name there; without -u an ONNX file.")] = "",
    transports: Annotated[
        str, typer.Option("-i", "--protocol", help=f"Of {', '.join(_WAYS)}, with commas between.")
    ] = "",
    concurrency: Annotated[str, typer.Option(help="Clients at a time, with commas between.")] = "1,4",
    shared_memory: Annotated[str, typer.Option(help="none, system or both.")] = "both",
    interval: Annotated[int, typer.Option("-p", "--measurement-interval", help="Milliseconds.", min=10)] = 2000,
    shape: Annotated[list[str] | None, typer.Option(help="NAME:1,3,224,224 for perf_analyzer.")] = None,
) -> Report:
    """Latency and throughput of a served model over each transport, by perf_analyzer and a native loop.

    Without -u a server with MODEL, or a small model, is started for it.
    """
    levels = [int(word) for word in concurrency.split(",")]
    ways = [word.strip() for word in (transports or ("grpc" if url else ",".join(_WAYS))).split(",")]
    shared = {"none": (False,), "system": (True,), "both": (False, True)}.get(shared_memory, ())
    if not shared or not set(ways) <= _WAYS.keys():
        raise ValueError(
            f"got -i {transports!r} and --shared-memory {shared_memory!r}; --help has those that there are"
        )
    if url and not model:
        raise ValueError("-u needs the name of a model: -m MODEL")
    rows: list[_Row] = []
    with _served(url, model, min(max(levels), _MOST_INSTANCES)) as (name, addresses):
        for way, is_shared, clients in product(ways, shared, levels):
            title = f"{_WAYS[way]}, {'shared memory' if is_shared else 'bytes'}"
            say(f"{title}: {clients} at a time")
            if way == "native":
                rows.append(_natively(title, addresses.native, name, clients, is_shared, interval / 1e3))
            else:
                address = addresses.http if way == "http" else addresses.grpc
                words = [word for each in shape or () for word in ("--shape", each)]
                rows.append(_analyzed(title, way, address, name, clients, is_shared, interval, words))
    cells = ((row.title, *(f"{value:,.0f}" for value in row[1:])) for row in rows)
    columns = "at a time,requests/s,p50 µs,p90 µs,p99 µs"
    return Report(
        [figure_table(f"Requests to {name}", "transport", columns, cells)], figures=[r._asdict() for r in rows]
    )


@contextmanager
def _served(url: str, model: str, instances: int) -> Iterator[tuple[str, _Addresses]]:
    """Yield the name of the model, and where it serves. Raises ValueError, OSError and StartError."""
    if url:
        yield model, _Addresses(url, url, url)
        return
    name, content = (Path(model).stem, onnx.load(model)) if model else (_SMALL, rectifier(1 << 10))
    with serving({name: content}, instances) as server:
        yield name, _Addresses(server.http, server.grpc, str(server.directory))


def _natively(title: str, directory: str, name: str, clients: int, shared: bool, seconds: float) -> _Row:
    """Measure the native client, on random floats."""
    with connect(directory) as framework, framework.open(name) as opened:
        dimensions = {tensor.name: tensor.dimensions for tensor in opened.inputs}
    with Load(Target(NATIVE, directory, name, dimensions, shared), clients) as load:
        load.measure(min(1.0, seconds))
        window = load.measure(seconds)
    return _Row(title, clients, window.rate, *(float(np.percentile(window.latencies_us, p)) for p in (50, 90, 99)))


def _analyzed(
    title: str, protocol: str, url: str, model: str, clients: int, shared: bool, interval: int, more: list[str]
) -> _Row:
    """Measure by perf_analyzer. Raises ValueError with what it said if it fails."""
    program, environment = perf_analyzer()
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        report = Path(folder) / "report.csv"
        command = [str(program), "-m", model, "-u", url, "-i", protocol, "-f", str(report), *more]
        command += ["--concurrency-range", str(clients), "--measurement-interval", str(interval)]
        command += ["--stability-percentage", str(_STABLE_PERCENT)]
        if shared:
            command += ["--shared-memory", "system"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode or not report.is_file():
            raise ValueError(
                f"perf_analyzer ended with status {done.returncode}: {(done.stderr or done.stdout).strip()}"
            )
        (row,) = csv.DictReader(report.open())
    return _Row(title, clients, float(row["Inferences/Second"]), *(float(row[column]) for column in _COLUMNS))


def perf_analyzer() -> tuple[Path, dict[str, str]]:
    """Return the program, which is installed if it is not there, and its environment. Raises InstallationError."""
    named = os.environ.get(_VARIABLE)
    folder = environments_directory() / "perf_analyzer"
    python = Path(named) if named else interpreter(folder, _REQUIREMENTS, ("tritonclient", "nvidia.cuda_runtime"))
    libraries = sorted(map(str, python.parents[1].glob("lib/python*/site-packages/nvidia/*/lib")))
    known = os.environ.get("LD_LIBRARY_PATH", "")
    return python.with_name("perf_analyzer"), {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, known])}


if __name__ == "__main__":
    run(serve)
