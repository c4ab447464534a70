"""pip learns what the distributions in C++ are without compiling them: it would do so twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.sdk, pytest.mark.slow]


@pytest.mark.parametrize("folder", ["native", "frontends/ort_ep"])
def test_metadata_needs_no_compiler(folder: str) -> None:
    words = ["-m", "pip", "install", "--disable-pip-version-check", "--dry-run", "--no-deps", str(ROOT / folder)]
    environment = {**os.environ, "CXX": "no-compiler-at-all"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would install nnhal-" in done.stdout
