"""Supervisors of a process, and keys of its operators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.admin import oversight
from nnhal_hosting.admin.oversight import oversight_of

FILE_KEY = "f" * 20


class FakeSupervision:
    """A process's side of supervision."""

    def __init__(self, admin_key: str = "") -> None:
        self.admin_key = admin_key
        self.is_supervised = bool(admin_key)

    def exit(self) -> None:
        """End the process."""

    def give_up(self) -> None:
        """End the process for certain."""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have the process run in no container and as no unit."""
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    monkeypatch.setattr(oversight, "_CONTAINER_FILES", (tmp_path / ".dockerenv",))
    monkeypatch.setattr(oversight, "_CONTAINER_GROUPS", ())


def supervisor(admin_key: str = "") -> wire.Supervisor.ValueType:
    supervision: Any = FakeSupervision(admin_key)
    return oversight_of(supervision, None).supervisor


def test_a_process_with_a_supervisor_of_nnhal_says_so() -> None:
    assert supervisor("k" * 20) == wire.SUPERVISOR_NNHAL


def test_a_process_that_a_shell_has_started_has_no_supervisor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INVOCATION_ID", "inherited from a terminal that is a unit")
    (tmp_path / ".dockerenv").touch()
    assert os.getppid() != 1
    assert supervisor() == wire.SUPERVISOR_UNSPECIFIED


def test_a_child_of_systemd_with_an_invocation_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert supervisor() == wire.SUPERVISOR_UNSPECIFIED
    monkeypatch.setenv("INVOCATION_ID", "0")
    assert supervisor() == wire.SUPERVISOR_SYSTEMD


@pytest.mark.parametrize("call", ["getpid", "getppid"])
def test_the_first_process_of_a_container_is_started_again_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str
) -> None:
    monkeypatch.setattr(os, call, lambda: 1)
    assert supervisor() == wire.SUPERVISOR_UNSPECIFIED
    (tmp_path / ".dockerenv").touch()
    assert supervisor() == wire.SUPERVISOR_CONTAINER


def test_keys_of_the_supervisor_and_of_a_file_count_alike(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(FILE_KEY)
    path.chmod(0o600)
    supervised: Any = FakeSupervision("k" * 20)
    alone: Any = FakeSupervision()
    assert oversight_of(supervised, path).keys == ("k" * 20, FILE_KEY)
    assert oversight_of(alone, path).keys == (FILE_KEY,)
    assert oversight_of(alone, None).keys == ()
