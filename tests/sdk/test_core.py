"""The core of the SDK in C++: its units, and a client that is built on it, under the sanitizers of the compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal_tools.up import Testbed
from tests.support.testbeds import own_testbed

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "sdk" / "cpp" / "core"
UNITS = ["core_encodings", "core_sockets", "core_sessions"]
COMPILER = shutil.which("g++")
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-pthread"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
pytestmark = [pytest.mark.sdk, pytest.mark.skipif(COMPILER is None, reason="there is no g++")]


def compile_with(*arguments: str | Path) -> None:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all programs, with what finds wrong accesses to memory."""
    folder = tmp_path_factory.mktemp("core")

    def compile_source(source: Path, *options: str) -> Path:
        compiled = folder / f"{source.stem}.o"
        compile_with(*SANITIZERS, *options, "-c", "-o", compiled, source)
        return compiled

    with ThreadPoolExecutor(2) as pool:
        core = list(pool.map(compile_source, sorted(CORE.glob("*.cpp"))))
        tests = list(pool.map(lambda source: compile_source(source, f"-I{CORE}"), sorted(HERE.glob("core_*.cpp"))))
        list(pool.map(lambda made: compile_with(*SANITIZERS, "-o", made.with_suffix(""), made, *core), tests))
    return folder


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Processes of cpu_acc, cpu_ref and a framework."""
    with own_testbed() as bed:
        yield bed


def run(program: Path, *arguments: str | Path) -> tuple[int, list[str], str]:
    """Run it to its end; return its status, its lines, and what it says of errors."""
    ended = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, check=False, env={"PATH": os.defpath}
    )
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


def _units() -> list[tuple[str, str]]:
    found = re.compile(r"^TEST\((\w+)\)", re.MULTILINE)
    return [(program, name) for program in UNITS for name in found.findall((HERE / f"{program}.cpp").read_text())]


@pytest.mark.parametrize(("program", "name"), _units())
def test_unit(programs: Path, program: str, name: str) -> None:
    assert run(programs / program, name) == (0, [], "")


def test_it_compiles_without_a_build_system(programs: Path, tmp_path: Path) -> None:
    """The core was compiled file by file, without a folder of headers that would have to be named."""
    program = tmp_path / "main.cpp"
    program.write_text("int main() {}\n")
    core = [programs / f"{source.stem}.o" for source in sorted(CORE.glob("*.cpp"))]
    compile_with(*SANITIZERS, "-o", tmp_path / "main", program, *core)


def test_its_headers_stand_alone(programs: Path) -> None:
    """A header that a source of the core includes before all others was compiled with it."""
    first = re.compile(r"^#include (.*)$", re.MULTILINE)
    compiled = {found[1] for source in CORE.glob("*.cpp") if (found := first.search(source.read_text()))}
    for header in sorted((CORE / "nnhal").rglob("*.h")):
        if f'"{header.relative_to(CORE)}"' not in compiled:
            compile_with("-fsyntax-only", "-x", "c++", f"-I{CORE}", "-include", header, "/dev/null")


def _line(way: str, number: int) -> str:
    return f"{way}: {' '.join([str(number)] * 8)}"


def test_it_computes_through_the_framework(programs: Path, testbed: Testbed) -> None:
    status, lines, error = run(programs / "core_client", testbed.framework)
    assert (status, error) == (0, "")
    assert lines.pop(0) == "answers are numbered: 1"
    known = [line for line in lines if line.startswith("knows: ")]
    assert "knows: cpu_ref, level 8, here" in known
    assert lines[len(known) :] == [
        "loaded: addition, 2 inputs, output0 of 32 bytes",
        _line("on the device", 3),
        "direct: 1, fell back: 0",
        _line("with a deadline", 7),
        "direct: 0, fell back: 0",
        _line("launched", 11),
        "cancelled: GENERAL_FAILURE: a fence is in error",
        _line("through the framework", 15),
        "direct: 0, fell back: 0",
        "unknown: GENERAL_FAILURE: FrameworkService/Nothing: the method is not served over the link",
        f"not put: INVALID_ARGUMENT: {testbed.framework}/link.sock: the link refuses: descriptor 12345 is not offered, "
        "or was taken already, or its owner was released",
        "unloaded: DEVICE_UNAVAILABLE",
    ]
