"""A process of which a listener does not answer ends by itself, so that it is started again: each kind of process.

A supervisor goes on: nobody may be there to start it again, and all processes with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.admin import EXIT_STATUS
from tests.support.repositories import onnx_file, write

SECONDS = 300
CASES = [
    ("grpc", "device", "gRPC at "),
    ("links", "device", "links at "),
    ("wire", "device for other hosts", "the wire at 127.0.0.1:"),
    ("links", "framework", "links at "),
    ("http", "framework with a repository", "http"),
    ("http", "dashboard", "http://127.0.0.1:"),
]
SUPERVISOR = ("links", "supervisor")
"""Which listener is deaf, of which process, and how it is named."""


def words(kind: str, directory: Path) -> list[str]:
    """Return the command line of a process, after ``python -m``."""
    models = directory / "models"
    write(models, "tanh", {"1/model.onnx": onnx_file()})
    device = ["nnhal_devices", "null", "--endpoint", str(directory / "null")]
    framework = ["nnhal_service", "--endpoint", str(directory / "framework")]
    ports = [f"--{kind}-port=0" for kind in ("http", "grpc", "metrics")]
    topology = directory / "bed.toml"
    topology.write_text('[[device]]\ndriver = "null"\n')
    processes = {
        "device": device,
        "device for other hosts": [*device, "--listen", "127.0.0.1:0"],
        "framework": framework,
        "framework with a repository": [
            *framework,
            "--model-repository",
            str(models),
            "--model-control-mode=explicit",
            *ports,
        ],
        "dashboard": ["nnhal_dashboard", "--directory", str(directory), "--port", "0"],
        "supervisor": ["nnhal", "up", str(topology), "--directory", str(directory), "--no-dashboard"],
    }
    return processes[kind]


@pytest.fixture(scope="module")
def processes() -> Iterator[Mapping[tuple[str, str], subprocess.Popen[str]]]:
    """All processes, which are started together: each waits a while for its listener before it ends."""
    with ExitStack() as stack:
        started = {}
        for listener, kind in [case[:2] for case in CASES] + [SUPERVISOR]:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-"))
            command = [sys.executable, "-m", "tests.support.deaf", listener, *words(kind, Path(directory))]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            started[listener, kind] = process
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("listener, kind, named", CASES)
def test_a_process_of_which_a_listener_does_not_answer_ends_to_be_started_again(
    processes: Mapping[tuple[str, str], subprocess.Popen[str]], listener: str, kind: str, named: str
) -> None:
    process = processes[listener, kind]
    _, complaints = process.communicate(timeout=SECONDS)
    assert process.returncode == EXIT_STATUS, complaints
    assert "a listener does not answer" in complaints
    assert named in complaints


@pytest.mark.slow
def test_a_supervisor_of_which_a_listener_does_not_answer_says_so_and_goes_on(
    processes: Mapping[tuple[str, str], subprocess.Popen[str]],
) -> None:
    process = processes[SUPERVISOR]
    assert process.stderr is not None
    told = 0
    for line in process.stderr:
        told += "a listener does not answer" in line and "links at " in line
        if told == 2:
            break
    assert told == 2
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0
