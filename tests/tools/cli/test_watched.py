"""The first process of a container, which watches a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nnhal_hosting.supervision import is_stopped
from nnhal_tools.cli.watched import main
from tests.support.command import command, nnhal
from tests.support.waiting import stop

WATCH = """
import sys
from nnhal_hosting import supervision
from nnhal_tools.cli import programs, watched
programs.PROGRAMS["held"] = "tests.support.held_interpreter"
was_stopped = supervision.is_stopped
supervision.is_stopped = lambda pid: print("looked at", pid, flush=True) or was_stopped(pid)
heard = watched._heard
watched._heard = lambda signs: [(said, print("said", flush=True))[0] for said in heard(signs)]
sys.exit(watched.main(sys.argv[1:]))
"""
SECONDS = 120


def test_a_command_whose_interpreter_is_never_let_go_is_killed() -> None:
    words = [sys.executable, "-c", WATCH, "--hang-secs", "2", "held"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 128 + signal.SIGKILL
    assert "gave no sign of life for 2 s: killed" in done.stderr


def test_a_command_that_was_stopped_is_left_alone_and_gets_signals(short_path: Path) -> None:
    words = [sys.executable, "-c", WATCH, "--hang-secs", "4", "device", "null", "--endpoint", str(short_path / "null")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watched:
        assert watched.stdout is not None
        assert watched.stdout.readline() == "said\n"
        (child,) = Path(f"/proc/{watched.pid}/task/{watched.pid}/children").read_text().split()
        stop(int(child))
        looks = (line for line in watched.stdout if line != "said\n")
        assert [next(looks) for _ in range(3)] == 3 * [f"looked at {child}\n"]
        assert is_stopped(int(child))
        os.kill(int(child), signal.SIGCONT)
        watched.terminate()
        assert watched.wait(SECONDS) == 0


def test_its_status_is_that_of_the_command() -> None:
    assert nnhal("watched", "device", "no_such_driver", "--endpoint", "/nowhere").returncode == 2
    with subprocess.Popen(command(["watched", "device", "--help"]), stdout=subprocess.DEVNULL) as watched:
        assert watched.wait(SECONDS) == 0


@pytest.mark.parametrize("words", [[], ["ps"], ["--hang-secs"], ["--hang-secs", "-1", "device"]])
def test_wrong_arguments_are_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: nnhal watched" in capsys.readouterr().err
