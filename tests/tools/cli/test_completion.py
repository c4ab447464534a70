"""Completion of commands, options and names, in a real bash."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnhal_tools.cli.app import app
from nnhal_tools.cli.completion import complete_drivers
from tests.support.completing import completed


@pytest.mark.slow
def test_bash_completes(short_path: Path) -> None:
    offered = {
        "nnhal casc": ["cascade"],  # of an installed package
        "nnhal ctl unl": ["unload"],
        "nnhal explain model.onnx --dev": ["--devices"],
        "nnhal up --devices ethos_n,cpu_": ["ethos_n,cpu_acc", "ethos_n,cpu_ref"],
        "nnhal device gpu": ["gpu_acc"],
        "nnhal serve --model-r": ["--model-repository"],  # of a program that reads its own options
        f"nnhal ctl stop --directory {short_path} np": ["npu_7"],
        f"nnhal ctl load --directory {short_path} any": [],  # nobody answers, and nothing is said
    }
    (short_path / "npu_7").mkdir()
    with socket.socket(socket.AF_UNIX) as device:
        device.bind(str(short_path / "npu_7/device.sock"))
        assert completed(list(offered)) == offered


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        # bash is asked for its version
        pytest.param("bash", "complete -o default -F _nnhal_completion nnhal", marks=pytest.mark.slow),
        ("zsh", "#compdef nnhal"),
        ("fish", "complete --command nnhal"),
    ],
)
def test_each_shell_has_its_script(shell: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_NNHAL_COMPLETE", "")  # set by the command, undone here
    assert said in CliRunner().invoke(app, ["completion", shell]).output


def test_a_driver_is_not_listed_twice() -> None:
    assert "cpu_ref,cpu_ref" not in complete_drivers("cpu_ref,cpu")
