"""The testbed that is looked at: many devices, models and sessions, under ``nnhal up`` with its dashboard."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.testbeds import RunningTestbed, running_testbed

DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"
_ROOM = {"NNHAL_DEVICE_MAX_DESCRIPTORS": "1024"}
"""The framework has more models on one device than its session may have descriptors for by default."""
_DRIVERS = ("cpu_acc", "cpu_ref", "null")


@contextmanager
def shown_testbed(devices: int, models: int) -> Iterator[RunningTestbed]:
    """Start a testbed with a number of devices, and of copies of one small model, ``digits_000`` and so on.

    Raises BenchError if it does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        root = Path(name)
        for number in range(models):
            file = root / "models" / model_name(number) / "1" / "model.onnx"
            file.parent.mkdir(parents=True)
            shutil.copyfile(DIGITS, file)
        topology = _topology([_DRIVERS[min(n, 2)] for n in range(devices)], root / "models")
        with running_testbed(root, topology, ["--dashboard-port", "0"], _ROOM) as testbed:
            yield testbed


def model_name(number: int) -> str:
    """Return the name of a copy of the model."""
    return f"digits_{number:03}"


@contextmanager
def idle_sessions(testbed: RunningTestbed, count: int) -> Iterator[None]:
    """Keep sessions open: half of them with the framework, where some own memory, the others with the devices."""
    words = [sys.executable, "-m", "benchmarks.dashboard.idle_client", str(testbed.directory), str(count)]
    with subprocess.Popen([*words, *testbed.devices], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stdin is not None
        try:
            if not client.stdout.readline():
                raise RuntimeError(f"the client of {count} idle sessions ended with status {client.wait()}")
            yield
        finally:
            client.stdin.close()


def _topology(drivers: Sequence[str], repository: Path) -> str:
    tables = [f'[[device]]\ndriver = "{driver}"\nname = "{driver}_{n}"\n' for n, driver in enumerate(drivers)]
    ports = "".join(f"{kind}_port = 0\n" for kind in ("http", "grpc", "metrics"))
    return f'{"".join(tables)}[framework]\nmodel_repository = ["{repository}"]\n{ports}'
