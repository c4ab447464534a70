"""The example in C++: a client that has nothing of nnhal's but its documents."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.link import Link
from nnhal_tools.up import Testbed
from tests.support.fault_outcomes import CPP_ROWS
from tests.support.faulty import FaultyDevice, faulty_device
from tests.support.processes import device_process

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "examples" / "c" / "client.cpp"
COMPILER = shutil.which("g++") or shutil.which("c++")
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
STRICT = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no compiler of C++")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with what finds wrong accesses to memory if the compiler has that."""
    program = tmp_path_factory.mktemp("client") / "client"
    assert COMPILER is not None
    command = [COMPILER, *STRICT, "-o", str(program), str(SOURCE)]
    if subprocess.run([*command, *SANITIZERS], capture_output=True, timeout=300, check=False).returncode != 0:
        built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert built.returncode == 0, built.stderr
    return program


def run(program: Path, *arguments: str | Path) -> tuple[int, list[str], str]:
    """Run it to its end; return its status, its lines, and what it says of errors."""
    ended = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, check=False, env={"PATH": os.defpath}
    )
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


@pytest.mark.slow
def test_it_computes_on_a_device_by_each_way_of_executing(client: Path, cpu_ref: Endpoint) -> None:
    status, lines, error = run(client, "device", cpu_ref.directory)
    assert (status, error) == (0, "")
    assert lines[0].startswith("device: nnhal-cpu_ref")
    assert lines[1:4] == [f"{way}: {' '.join([number] * 8)}" for way, number in SUMS]
    assert lines[4:] == [
        "refused: PreparedModelService/ExecuteSynchronously failed: INVALID_ARGUMENT: output 0 lies at bytes 96 to 128 "
        "of pool 0, which has 96"
    ]


SUMS = [("synchronously", "3"), ("in a burst", "7"), ("fenced", "11")]


@pytest.mark.slow
def test_it_computes_through_the_framework(client: Path, testbed: Testbed) -> None:
    status, lines, error = run(client, "framework", testbed.framework)
    assert (status, error) == (0, "")
    assert lines[0] in ("device: cpu_acc", "device: cpu_ref")
    assert lines[1:] == [f"through the framework: {' '.join(['15'] * 8)}"]


@pytest.mark.slow
def test_it_ends_with_an_error_in_words(client: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(client, "device", short_path) == (1, [], f"{short_path}/link.sock: No such file or directory\n")
    monkeypatch.setenv("NNHAL_DEVICE_MAX_SESSIONS", "1")
    with device_process("cpu_ref", short_path) as (_, endpoint), Link(endpoint.link):
        status, lines, error = run(client, "device", endpoint.directory)
    assert (status, lines) == (1, [])
    assert error == "the link refuses: 1 links are open, which is the limit\n"


@pytest.mark.slow
def test_a_device_that_cannot_do_the_model_says_so(client: Path, short_path: Path) -> None:
    with device_process("null", short_path) as (_, endpoint):
        status, lines, error = run(client, "device", endpoint.directory)
    assert (status, len(lines)) == (1, 1)
    assert error.startswith("preparing failed: INVALID_ARGUMENT: operation 0 (ADD) is not supported by null")


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyDevice]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name, faulty_device(Path(name)) as device:
        yield device


@pytest.mark.slow
@pytest.mark.parametrize("name", CPP_ROWS)
def test_it_meets_a_fault_of_a_device(client: Path, faulty: FaultyDevice, short_path: Path, name: str) -> None:
    row = CPP_ROWS[name]
    with ExitStack() as stack:
        dies = row.fault["what"] == "death"
        device = stack.enter_context(faulty_device(short_path)) if dies else faulty
        device.control.set({**row.fault, "name": "it"})
        status, lines, error = run(client, "device", device.endpoint.directory, "1")
        if not dies:
            assert device.control.injected() > 0
            device.control.clear()
    printed = [line.split()[-1] for line in lines if not line.startswith(("device: ", "refused: "))]
    assert ", ".join(printed) == row.sums
    assert (status, bool(error)) == ((1, True) if row.error else (0, False))
    assert error.strip().endswith(row.error)
