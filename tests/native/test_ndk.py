"""C programs of NeuralNetworks.h run over the devices of a framework, through libneuralnetworks.so."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from nnhal_tools.up import Testbed
from tests.native.conftest import ROOT, Program, environment, started
from tests.support.waiting import settled, wait_until

pytestmark = pytest.mark.sdk


def test_a_program_executes_in_every_way(program: Program) -> None:
    assert program("ways") == [
        "device cpu_acc",
        "device nnapi-reference",
        "compute",
        "reusable",
        "reused",
        "burst",
        "started",
        "fenced",
        "before it",
        "in memory",
        "in threads",
    ]


def test_a_program_makes_fences_of_its_own_as_the_page_says(program: Program) -> None:
    (sample,) = re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs/doors.md").read_text(), re.DOTALL | re.MULTILINE)
    assert sample in (ROOT / "tests/native/programs/fences.c").read_text()
    assert program("fences") == ["signalled", "failed", "never came", "dimensions only", "dimensions only"]


def test_what_a_program_may_give_otherwise_than_the_model_is_told_once(libraries: Path, testbed: Testbed) -> None:
    ended = subprocess.run(
        [libraries / "fences"],
        env=environment(libraries, testbed.framework),
        capture_output=True,
        text=True,
        check=True,
    )
    (told,) = [line for line in ended.stderr.splitlines() if "only the dimensions count" in line]
    assert told.startswith("nnhal: input 0 is given with another type or quantisation than the model's")


@pytest.mark.parametrize(
    ("trap", "lines"),
    [
        ("handles", ["after misuse", "an execution outlives its handle's compilation"]),
        ("signals", ["once", "signals are as they were"]),
        ("forks", ["in the child", "in the parent"]),
        ("oem", ["refused"]),
    ],
)
def test_what_a_program_does_wrong_harms_nothing(program: Program, trap: str, lines: list[str]) -> None:
    assert program("traps", trap) == lines


def test_the_library_can_be_closed_and_loaded_again(program: Program) -> None:
    assert program("loads") == ["2 devices"] * 3


def test_a_program_outlives_its_framework(libraries: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        directory = Path(name)
        with started(directory) as bed:
            running = subprocess.Popen(
                [libraries / "traps", "outlives"],
                env=environment(libraries, bed.framework),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert running.stdin is not None and running.stdout is not None
            assert running.stdout.readline() == "before\n"
        print(file=running.stdin, flush=True)
        assert running.stdout.readline() == "without\n"
        with started(directory):
            print(file=running.stdin, flush=True)
            assert running.communicate()[0] == "again\n"
        assert running.returncode == 0


def test_a_program_leaves_nothing_behind(program: Program, testbed: Testbed) -> None:
    descriptors = Path(f"/proc/{testbed.pid('framework')}/fd")
    program("ways")
    before = settled(lambda: len(list(descriptors.iterdir())))
    for _ in range(3):
        program("ways")
    wait_until(lambda: len(list(descriptors.iterdir())) <= before, "the framework has closed what programs used")


def test_without_a_framework_calls_end_in_an_error_code(libraries: Path) -> None:
    ended = subprocess.run(
        [libraries / "ways"], env=environment(libraries, "/nowhere"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert re.search(r"getDeviceCount\(&count\): result 14, expected 0", ended.stderr)


def test_the_library_exports_the_interface_and_nothing_else(libraries: Path) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", libraries / "libneuralnetworks.so"], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert len(names) == 76  # one tells why a call was refused
    assert all(name.startswith("ANeuralNetworks") for name in names)
