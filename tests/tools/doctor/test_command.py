"""``nnhal doctor`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from tests.support.command import nnhal


@pytest.mark.slow
def test_the_command_says_ok_warn_or_fail_on_every_line(cpu_ref: Endpoint) -> None:
    done = nnhal("doctor", "--directory", str(cpu_ref.directory.parent))
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    assert any("socket cpu_ref/device.sock" in line for line in lines)
    assert all("->" in line for line in lines if line.startswith("warn"))


@pytest.mark.slow
def test_what_fails_is_the_status(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = nnhal("doctor", "--directory", str(tmp_path / "file"), "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1 and answer["failed"] >= 1
    assert {"check", "status", "message", "todo"} == set(answer["findings"][0])
    assert "directory" in {finding["check"] for finding in answer["findings"] if finding["status"] == "fail"}
