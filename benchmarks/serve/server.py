"""A server of nnhal's own, for measurements without a server of the user's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.models import rectifier, write_model
from benchmarks.serve.target import Transport
from benchmarks.testbeds import running_testbed

SMALL = "small"
DEVICE = "cpu_acc"
MOST_INSTANCES = 4
"""More runs at a time than these say nothing more about a server of one machine."""


@dataclass(frozen=True, slots=True)
class BenchServer:
    """A server that runs."""

    urls: Mapping[Transport, str]
    """Its address by transport."""
    models: Mapping[str, Path]
    """The files of its models by their names."""
    processes: Mapping[str, int]
    """The ids of its processes: ``framework``, and the device by its name."""
    traces: Path
    """The directory to which it writes traces of requests."""


def small_model() -> onnx.ModelProto:
    """y = relu(x) of 1 KiB: nearly all of the time is that of the transport."""
    return rectifier(1 << 10)


@contextmanager
def serving(
    models: Mapping[str, onnx.ModelProto],
    instances: int = 1,
    front_workers: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[BenchServer]:
    """Serve models on cpu_acc over every transport until the context ends. Raises BenchError.

    ``instances`` is how many runs of a model may go on at once; ``front_workers`` are the framework's.
    ``environment`` is added to this process's.
    """
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        root = Path(name)
        group = f"instance_group {{ count: {instances} }}\n"
        files = {title: write_model(root / "models", title, model, group) for title, model in models.items()}
        traces = root / "traces"
        traces.mkdir()
        topology = (
            f'[[device]]\ndriver = "{DEVICE}"\nworkers = {instances}\n'
            f"[framework]\nmodel_repository = [{json.dumps(str(root / 'models'))}]\n"
            "http_port = 0\ngrpc_port = 0\nmetrics_port = 0\nallow_client_shm = true\n"
            f"http_max_input_size = {1 << 30}\ntrace_directory = {json.dumps(str(traces))}\n"
        )
        if front_workers is not None:
            topology += f"front_workers = {front_workers}\n"
        with running_testbed(root, topology, ["--no-dashboard"], environment) as testbed:
            urls = {kind: testbed.addresses[str(kind)] for kind in (Transport.GRPC, Transport.HTTP)}
            urls[Transport.NATIVE] = str(testbed.directory / "framework")
            processes = {each: testbed.pids[each] for each in ("framework", DEVICE)}
            yield BenchServer(urls, files, processes, traces)
