"""nnhal on two nodes of Ray, in a process of another environment, since Ray is none of nnhal's requirements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.generators import BenchError
from benchmarks.scaling.hosts import devices_topology, environment
from benchmarks.scaling.senders import Sender
from benchmarks.scaling.ways import Way, ways_by_ray

_VARIABLE = "NNHAL_RAY"
_STOP_SECONDS = 120.0
_SHOWN_CHARACTERS = 1000


class RayServeError(Exception):
    """No Ray, or no nnhal on it. The message says why."""


@contextmanager
def running_ray(root: Path, repository: Path, milliseconds: float) -> Iterator[list[Way]]:
    """Run nnhal on two nodes of Ray until the context ends, and yield the ways through its ingress.

    Raises RayServeError.
    """
    python = os.environ.get(_VARIABLE, sys.executable)
    topology, log = root / "ray.toml", root / "ray.log"
    topology.write_text(devices_topology(milliseconds))
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [python, "-m", "benchmarks.scaling.ray_nodes", str(repository), str(topology)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment()},
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            said = log.read_text(errors="replace").strip()[-_SHOWN_CHARACTERS:]
            raise RayServeError(f"name a Python with nnhal[ray] in {_VARIABLE}; {python} said: {said}")
        ways = ways_by_ray(_addresses(line))
        _require_answers(ways)
        yield ways
    finally:
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _addresses(line: str) -> Mapping[str, str]:
    found: dict[str, str] = json.loads(line)
    return found


def _require_answers(ways: list[Way]) -> None:
    """Send requests by each way: one that does not work is known before the measurement. Raises RayServeError."""
    for way in ways:
        try:
            with Sender(way.destination) as sender:
                sender.keep_busy(next(iter(way.destination.models)), 1, 0.5).require_none_failed(way.title)
        except BenchError as error:
            raise RayServeError(str(error)) from error
