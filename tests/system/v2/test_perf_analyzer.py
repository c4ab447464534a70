"""Triton's perf_analyzer, whose client is Triton's own in C++, unmodified and in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.model_server import Served

PROGRAM = Path(os.environ.get("NNHAL_PERF_ANALYZER", ""))
CANNOT_START = 127
WAYS = {
    "HTTP": ("-i", "http"),
    "HTTP, asynchronous": ("-i", "http", "--async"),
    "gRPC": ("-i", "grpc"),
    "gRPC, asynchronous": ("-i", "grpc", "--async"),
    "gRPC, streaming": ("-i", "grpc", "--async", "--streaming"),
}


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Return the environment of perf_analyzer, which is linked to libraries of CUDA and of Debian."""
    if not PROGRAM.is_file():
        pytest.skip("NNHAL_PERF_ANALYZER names no perf_analyzer; 'make peers' does")
    libraries = sorted(map(str, PROGRAM.parents[1].glob("lib/python*/site-packages/nvidia/*/lib")))
    found = {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])}
    tried = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, env=found, check=False)
    if tried.returncode == CANNOT_START:
        pytest.skip(f"perf_analyzer cannot start: {tried.stderr.strip()}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("way", WAYS)
def test_perf_analyzer_measures(served: Served, environment: dict[str, str], way: str, memory: str) -> None:
    address = served.http if "http" in WAYS[way] else served.grpc
    tensors = ("-b", "4", "--shared-memory", memory, "--output-shared-memory-size", "128")
    window = ("--measurement-interval", "300", "--stability-percentage", "999")
    done = subprocess.run(
        [PROGRAM, "-m", "tanh", "-u", address, *WAYS[way], *tensors, *window],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "throughput" in done.stdout
