"""A process with clients that misbehave."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.model_server import Served
from tests.support.repositories import onnx_file, write
from tests.support.soak.misbehaving import COMING

_ROOT = Path(__file__).parents[3]


@contextmanager
def misbehaving(served: Served, pause: float = 0.02) -> Iterator[None]:
    """Run clients that misbehave, with pauses, until the context ends. Raises if one gets an unexpected answer."""
    write(served.repository, COMING, {"1/model.onnx": onnx_file("Neg")})
    words = [served.grpc, served.http, str(served.repository), str(pause)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.soak.misbehaving", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_ROOT,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            _, said = process.communicate()
    if process.returncode:
        raise AssertionError(said.decode())
