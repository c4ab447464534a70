"""A process of which a listener does not answer ends by itself, so that it is started again: each kind of process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nnhal.admin import EXIT_STATUS
from tests.support.repositories import onnx_file, write

SECONDS = 60


@pytest.fixture
def words(request: pytest.FixtureRequest, short_path: Path) -> list[str]:
    """The command line of a process, after ``python -m``."""
    models = short_path / "models"
    write(models, "tanh", {"1/model.onnx": onnx_file()})
    device = ["nnhal_devices", "null", "--endpoint", str(short_path / "null")]
    framework = ["nnhal_service", "--endpoint", str(short_path / "framework")]
    ports = [f"--{kind}-port=0" for kind in ("http", "grpc", "metrics")]
    topology = short_path / "bed.toml"
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
        "dashboard": ["nnhal_dashboard", "--directory", str(short_path), "--port", "0"],
        "supervisor": ["nnhal", "up", str(topology), "--directory", str(short_path), "--no-dashboard"],
    }
    return processes[request.param]


@pytest.mark.slow
@pytest.mark.parametrize(
    "listener, words, named",
    [
        ("grpc", "device", "gRPC at "),
        ("links", "device", "links at "),
        ("wire", "device for other hosts", "the wire at 127.0.0.1:"),
        ("links", "framework", "links at "),
        ("http", "framework with a repository", "http"),
        ("http", "dashboard", "http://127.0.0.1:"),
        ("links", "supervisor", "links at "),
    ],
    indirect=["words"],
)
def test_a_process_of_which_a_listener_does_not_answer_ends_to_be_started_again(
    listener: str, words: list[str], named: str
) -> None:
    command = [sys.executable, "-m", "tests.support.deaf", listener, *words]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    assert done.returncode == EXIT_STATUS, done.stderr
    assert "a listener does not answer" in done.stderr
    assert named in done.stderr
