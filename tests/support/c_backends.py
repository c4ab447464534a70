"""Backends in C for tests, and the examples that the documents show, compiled."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

import nnhal_devices.dynamic

_ROOT = Path(__file__).parents[2]
EXAMPLE = _ROOT / "examples/backend_c/Acme_Simple_backend.c"
EXAMPLE_CPP = _ROOT / "examples/backend_cpp/Acme_Vector_backend.cpp"
MODES = _ROOT / "tests/process/programs/modes_backend.c"
FEATURES = _ROOT / "tests/process/programs/features_backend.c"


def compiled(source: Path, target: Path, *flags: str) -> Path:
    """Compile a file of C or C++, once with the same flags."""
    target.write_bytes(_compiled(source, flags))
    target.chmod(0o700)
    return target


@cache
def _compiled(source: Path, flags: tuple[str, ...]) -> bytes:
    name, standard = ("c++", "c++17") if source.suffix == ".cpp" else ("cc", "gnu11")
    compiler = shutil.which(name)
    if compiler is None:
        pytest.skip(f"there is no compiler called {name}")
    include = Path(nnhal_devices.dynamic.__file__).parent
    words = [compiler, f"-std={standard}", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{include}", *flags]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "compiled"
        subprocess.run([*words, str(source), "-o", str(target)], check=True)
        return target.read_bytes()


def library(source: Path, target: Path, *flags: str) -> Path:
    """Compile a file of C or C++ into a shared object."""
    return compiled(source, target, "-shared", "-fPIC", "-Wl,-z,defs", *flags)
