"""PyTorch's own backend for NNAPI runs over the devices of a framework; nothing of it knows of nnhal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nnhal_tools.up import Testbed
from tests.native.conftest import environment

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the library
PYTHON = Path("/usr/bin/python3")
SCRIPT = Path(__file__).parent / "programs" / "pytorch.py"
QUANTUM = 0.1
"""More than one step of the scale of what is quantised."""


@pytest.fixture(scope="module")
def has_torch() -> None:
    """Skip unless the system's Python has PyTorch, which is too large to install for a test."""
    found = PYTHON.exists() and subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False)
    if not found or found.returncode:
        pytest.skip("the system's Python has no PyTorch: apt-get install python3-torch")


@pytest.mark.usefixtures("has_torch")
def test_modules_of_many_kinds_compute_what_pytorch_does(libraries: Path, testbed: Testbed) -> None:
    ended = subprocess.run(
        [PYTHON, SCRIPT],
        env={**environment(libraries, testbed.framework), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    worst = dict(line.rsplit(": ", 1) for line in ended.stdout.splitlines())
    assert len(worst) == 17
    assert {name for name, found in worst.items() if float(found) > (QUANTUM if name == "quantised" else 1e-4)} == set()
