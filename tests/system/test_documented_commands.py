"""The commands of README.md and of the reference, each once as it stands there; measurements are cut short."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from tests.support.command import benchmark, command, nnhal
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs/reference/commands.md")
MORE = ("python -m benchmarks.serve",)
"""Commands of docs/benchmarks.md that are run too."""
_COMMAND = re.compile(r"^    ((?:nnhal|python -m benchmarks\.\S+)(?: \S+)*)", re.MULTILINE)
_SECONDS = 120.0
"""A command that has not ended, or does not serve, after this has failed."""
SHORT = {
    "nnhal stress": "--steps 60",
    "nnhal bench examples/mobilenet/model.tflite --beside litert": "--rounds 10",
    "nnhal bench hop": "--rounds 10 --large-rounds 1",
    "nnhal bench modes": "--rounds 10 --large-rounds 3",
    "nnhal bench fallback": "--rounds 3 --sizes 4",
    "python -m benchmarks.serve": "-i native -p 60",
    "nnhal up": "any_ports.toml --dashboard-port 0",
}
"""Further options of some commands: for fewer rounds, and for ports that no other process has."""
SERVING = ("nnhal up", "nnhal device")
ASKING = ("nnhal ps", "nnhal health")
"""Commands that ask processes which run."""
ANY_PORTS = """
[[device]]
driver = "cpu_acc"
[[device]]
driver = "cpu_ref"
[framework]
http_port = 0
grpc_port = 0
metrics_port = 0
"""
pytestmark = pytest.mark.slow


def documented() -> list[str]:
    """Return the commands of all pages, each once, without their remarks."""
    found = (match for page in PAGES for match in _COMMAND.findall(page.read_text()))
    return list(dict.fromkeys([*(each.split(" #")[0].rstrip() for each in found), *MORE]))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the commands read; what one of them writes is there for the next."""
    directory = tmp_path_factory.mktemp("w")
    for name in ("examples", "tools", "benchmarks"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "models/digits/1").mkdir(parents=True)
    shutil.copy(ROOT / "tools/nnhal_tools/demo/data/digits.onnx", directory / "models/digits/1/model.onnx")
    (directory / "any_ports.toml").write_text(ANY_PORTS)
    return directory


def words_of(line: str, directory: Path) -> list[str]:
    """Return the words of a command with its further options; directories for sockets are below ``directory``."""
    more = next((options for name, options in SHORT.items() if line.startswith(name)), "")
    return shlex.split(re.sub(r"/(?:run|tmp)/(?=nnhal|npu)", f"{directory}/", f"{line} {more}"))


def variables(directory: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"NNHAL_DIRECTORY": str(directory / "nnhal"), "PATH": path}


@contextmanager
def started(line: str, workspace: Path, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Start ``nnhal``. It is killed when the context ends."""
    process = subprocess.Popen(
        command(words_of(line, directory)[1:]),
        cwd=workspace,
        env={**os.environ, **variables(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until_it_serves(line: str, process: subprocess.Popen[str], directory: Path) -> None:
    """Wait until what a command has started answers."""
    if line.startswith("nnhal device"):
        wait_until(lambda: _answers(Endpoint(directory / "npu")), f"{line!r} serves", _SECONDS)
        return
    assert process.stdout is not None
    said = ""
    while "ready:" not in said:  # the last thing that it prints before it waits
        text = process.stdout.readline()
        assert text, said
        said += text


def _answers(endpoint: Endpoint) -> bool:
    with suppress(NnhalError):
        RemoteDevice(endpoint).close()
        return True
    return False


@pytest.fixture(scope="module")
def testbed(workspace: Path) -> Iterator[Path]:
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        started("nnhal up", workspace, Path(directory)) as process,
    ):
        wait_until_it_serves("nnhal up", process, Path(directory))
        yield Path(directory)


@pytest.mark.parametrize("line", [line for line in documented() if line.startswith(ASKING)])
def test_a_documented_command_that_asks_processes_works(line: str, workspace: Path, testbed: Path) -> None:
    with started(line, workspace, testbed) as process:
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, said


@pytest.mark.parametrize("line", [line for line in documented() if line.startswith(SERVING)])
def test_a_documented_command_serves(line: str, workspace: Path, short_path: Path) -> None:
    with started(line, workspace, short_path) as process:
        wait_until_it_serves(line, process, short_path)
        process.terminate()
        said, _ = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, said


@pytest.mark.parametrize("line", [line for line in documented() if not line.startswith((*SERVING, *ASKING))])
def test_a_documented_command_works(
    line: str, workspace: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    for name, value in {**variables(short_path), "PWD": str(workspace)}.items():
        monkeypatch.setenv(name, value)
    program, *words = words_of(line, short_path)
    done = nnhal(*words) if program == "nnhal" else benchmark(words[1].removeprefix("benchmarks."), *words[2:])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_have_commands() -> None:
    found, measured = documented(), (ROOT / "docs/benchmarks.md").read_text()
    assert [line for line in MORE if line not in measured] == []
    assert len(found) > 15 and all(any(line.startswith(each) for line in found) for each in (*SHORT, *SERVING, *ASKING))
