"""Clients that behave, one of each kind, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tritonclient.grpc

from tests.support.model_server import Served
from tests.support.tritonclients import Triton

SIDE = 96
"""The size of the matrices that ``powers`` gets from clients which cancel."""
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Figures:
    """A client's requests per second, and percentiles of its latency in milliseconds."""

    rate: float
    p50: float
    p99: float


def reload_models(served: Served) -> None:
    """Reload the models and run each once, since earlier requests determine how many instances a model keeps."""
    given = {"tanh": np.zeros((1, 8), np.float32), "echo_fp32": np.zeros((4, 4), np.float32)}
    given["powers"] = np.eye(SIDE, dtype=np.float32)
    with Triton("grpc", tritonclient.grpc, served.grpc) as client:
        for model, array in given.items():
            client.client.unload_model(model)
            client.client.load_model(model)
            client.infer(model, {"x": array})


def run(served: Served, seconds: float, rates: Mapping[str, float] | None = None) -> dict[str, Figures]:
    """Run one client of each kind, as fast as it can or at its rate. Raises after a wrong answer or an error."""
    addresses = {"grpc": served.grpc, "shared memory": served.grpc, "http": served.http}
    addresses["native"] = str(served.endpoint.directory)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-soak-")))
        clients = {
            kind: stack.enter_context(_client(kind, address, seconds, (rates or {}).get(kind, 0.0), directory / kind))
            for kind, address in addresses.items()
        }
        for client in clients.values():
            assert client.stdout is not None
            client.stdout.readline()
        said = {}
        for client in clients.values():
            assert client.stdin is not None
            client.stdin.write(b"\n")
            client.stdin.flush()
        for kind, client in clients.items():
            said[kind] = client.communicate()[1]
        for kind, client in clients.items():
            if client.returncode:
                raise AssertionError(f"{kind}: {said[kind].decode()}")
        return {kind: _figures(directory / kind, seconds) for kind in clients}


def _client(kind: str, address: str, seconds: float, rate: float, file: Path) -> subprocess.Popen[bytes]:
    words = [kind, address, str(seconds), str(rate), str(file)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.soak.behaving", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_ROOT,
    )


def _figures(file: Path, seconds: float) -> Figures:
    ordered = np.sort(np.fromfile(file, np.float32)) * 1000
    return Figures(len(ordered) / seconds, *(float(ordered[int(len(ordered) * part)]) for part in (0.5, 0.99)))
