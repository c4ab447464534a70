"""The command's arguments, output and status."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_tools.health.command import main
from tests.support.command import nnhal
from tests.support.processes import device_process


def test_the_command_says_which_of_several_processes_is_not_healthy(tmp_path: Path) -> None:
    with device_process("null", tmp_path) as (_, endpoint):
        device = str(endpoint.directory)
        assert nnhal("health", device).returncode == 0
        done = nnhal("health", "--timeout", "3", device, "/nothing")
    assert (done.returncode, done.stderr) == (1, "nnhal health: /nothing: No such file or directory\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--timeout", "0", "/x"], ["--timeout", "x", "/x"], ["--timeout"], ["--timeout", "3"], ["--wait"]]
)
def test_wrong_arguments_are_told_apart_from_bad_health(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage: nnhal health" in capsys.readouterr().err


def test_help_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "TARGET is the directory" in capsys.readouterr().out
