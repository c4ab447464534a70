"""Behaviour of ``make`` before there is an environment: it finds a Python that works, or says which one is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def make(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [str(shutil.which("make")), "-s", "-f", str(MAKEFILE), "--eval=say:; @: $(info $(PYTHON))", "say"]
    return subprocess.run(words, env={"PATH": str(folder), **variables}, capture_output=True, text=True, check=False)


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_newest_python_that_works_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "python3.14", "echo 'pyenv: python3.14: command not found' >&2; exit 127")  # a shim without it
    program(tmp_path / "python3.13", "exit 1")  # without its module venv, as Debian has it
    program(tmp_path / "python3.12", f'exec {sys.executable} "$@"')
    program(tmp_path / "python3", f'exec {sys.executable} "$@"')
    assert make(tmp_path).stdout == "python3.12\n"
    assert make(tmp_path, PYTHON="mine").stdout == "mine\n"


def test_without_a_python_make_says_what_it_needs(tmp_path: Path) -> None:
    program(tmp_path / "python3", "exit 1")
    done = make(tmp_path)
    assert done.returncode == 2
    assert "there is no Python 3.11 or later" in done.stderr
    assert "make PYTHON=" in done.stderr
