"""The libraries and the programs, built once and kept built, and a framework for them."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import FaultOptions
from tests.support.compiled import compiled_objects
from tests.support.processes import WARM

ROOT = Path(__file__).parents[2]
_PROGRAMS = Path(__file__).parent / "programs"
_BUILT = ROOT / ".sdk" / "native"
_SECONDS = 120

Program = Callable[..., list[str]]
"""Runs a program of the folder ``programs`` with arguments, and returns its lines."""


@pytest.fixture(scope="session")
def libraries() -> Path:
    """The folder of the libraries. Of several workers one builds."""
    if shutil.which("g++") is None:
        pytest.skip("the libraries cannot be built without g++; make sdk installs it")
    build = runpy.run_path(str(ROOT / "native" / "build_libraries.py"))["build"]
    with compiled_objects() as objects:
        build(_BUILT, objects)
        for source in _PROGRAMS.glob("*.c"):
            linked = [] if source.stem == "loads" else [f"-L{_BUILT}", "-lneuralnetworks"]
            options = ["-Wall", "-Wextra", "-O1", f"-I{ROOT / 'native'}", *linked, "-lpthread", "-ldl"]
            subprocess.run(["gcc", str(source), "-o", str(_BUILT / source.stem), *options], check=True)
    return _BUILT


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """A framework over cpu_acc and cpu_ref."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, started(Path(directory)) as bed:
        yield bed


def started(directory: Path) -> Testbed:
    """A framework in a directory, over cpu_acc and cpu_ref."""
    devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref"))
    return Testbed(Topology(device=devices), directory, faults=FaultOptions(allowed=True), zygote=WARM)


def environment(libraries: Path, framework: Path | str) -> Mapping[str, str]:
    """Return the variables by which a program finds the library, and the library the framework."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(libraries),
        "NNHAL_FRAMEWORK": str(framework),
        "NNHAL_NDK_LOG": "1",
    }


@pytest.fixture
def program(libraries: Path, testbed: Testbed) -> Program:
    def run(name: str, *arguments: str) -> list[str]:
        ended = subprocess.run(
            [libraries / name, *arguments],
            env=environment(libraries, testbed.framework),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.splitlines()

    return run
