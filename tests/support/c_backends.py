"""Backends in C for tests, and the example that the documents show, compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import nnhal_devices.dynamic

_ROOT = Path(__file__).parents[2]
EXAMPLE = _ROOT / "examples/backend_c/Acme_Simple_backend.c"
MODES = _ROOT / "tests/process/programs/modes_backend.c"


def compiled(source: Path, target: Path, *flags: str) -> Path:
    """Compile a C file. Skips the test if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    include = Path(nnhal_devices.dynamic.__file__).parent
    words = [compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{include}", *flags]
    subprocess.run([*words, str(source), "-o", str(target)], check=True)
    return target


def library(source: Path, target: Path, *flags: str) -> Path:
    """Compile a C file into a shared object."""
    return compiled(source, target, "-shared", "-fPIC", "-Wl,-z,defs", *flags)
