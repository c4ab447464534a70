"""Ctrl-C and other signals while processes start: one line, the exit status of shells, and nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import command
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "tools/nnhal_tools/demo/data/digits.onnx")
INTERRUPTED = 130
COMMANDS = [
    *(pytest.param(["explain", MODEL], mark) for mark in ("nnhal_hosting.zygote", "nnhal_devices", "nnhal_service")),
    pytest.param(["run", MODEL], "nnhal_devices"),
    pytest.param(["demo"], "nnhal_devices"),
    pytest.param(["bench", "hop"], "nnhal_devices"),
    pytest.param(["up", "--no-dashboard", "--directory", "DIR/bed"], "nnhal_devices"),
    pytest.param(["device", "cpu_acc", "--endpoint", "DIR/device"], "nnhal_devices"),
    pytest.param(["serve", "--endpoint", "DIR/framework"], "nnhal_service"),
    pytest.param(["dashboard", "--directory", "DIR"], "nnhal_dashboard"),
]


def group_of(leader: int) -> list[str]:
    """The command lines of the processes of a group that have not ended."""
    return [line for line in map(_command_line, _pids(leader)) if line]


def _pids(leader: int) -> Iterator[int]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names alone
        try:
            if entry.isdigit() and os.getpgid(int(entry)) == leader:
                yield int(entry)
        except ProcessLookupError:
            continue


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def starting(words: list[str], mark: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a group of its own, until one of its processes has the mark in its command line."""
    arguments = command([word.replace("DIR", str(folder)) for word in words])
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            wait_until(lambda: any(f"-m {mark}" in line for line in group_of(process.pid)), f"there is a {mark}")
            yield process
        finally:
            if group_of(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "mark"), COMMANDS)
def test_an_interrupt_of_a_start_is_one_line(short_path: Path, words: list[str], mark: str) -> None:
    program = f"nnhal {words[0]}" if words[0] in ("device", "serve", "dashboard") else "nnhal"
    with starting(words, mark, short_path) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
        said, _ = process.communicate(timeout=120)
        lines = said.splitlines()
        assert (process.returncode, lines[-1:]) == (INTERRUPTED, [f"{program}: interrupted"]), said
        assert not any("Traceback" in line or "Error" in line for line in lines), said
        wait_until(lambda: not group_of(process.pid), "nothing is left")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_command_was_starting_ends_without_a_word(short_path: Path, number: signal.Signals) -> None:
    with starting(["explain", MODEL], "nnhal_devices", short_path) as process:
        process.send_signal(number)
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, said) == (-number, "")
        wait_until(lambda: not group_of(process.pid), "nothing is left")


def test_a_zygote_whose_supervisor_is_gone_ends_without_a_word() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = ["-m", "nnhal_hosting.zygote", "--socket", str(theirs.fileno())]
        process = subprocess.Popen(
            [sys.executable, *words], stderr=subprocess.PIPE, pass_fds=[theirs.fileno()], text=True, cwd=ROOT
        )
    with ours:
        ours.send(b'{"wait": 1}')  # it is still importing: its answer finds nobody
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, "")
