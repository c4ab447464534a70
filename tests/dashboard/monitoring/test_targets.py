"""Processes that are observed."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.targets import targets_of
from nnhal_dashboard.settings import DashboardSettings
from tests.support.dashboard import supervised


@pytest.fixture
def below() -> Iterator[Path]:
    """A directory with the sockets of two devices and of a framework."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        for name, kind in (("npu", "device"), ("main", "framework"), ("cpu", "device")):
            (root / name).mkdir()
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(root / name / f"{kind}.sock"))
        (root / "nothing").mkdir()
        yield root


def test_without_a_supervisor_the_processes_below_the_directory_are_found(below: Path) -> None:
    found = targets_of(DashboardSettings(directory=below), None, None)
    assert [(target.name, target.kind) for target in found] == [
        ("cpu", "device"),
        ("npu", "device"),
        ("main", "framework"),
    ]
    assert [target.directory for target in found] == [str(below / name) for name in ("cpu", "npu", "main")]


def test_what_is_found_has_the_names_and_the_order_that_the_framework_and_the_settings_say(below: Path) -> None:
    devices = [framework_admin_pb2.DeviceStanding(name="mine", directory=str(below / "npu"))]
    framework = framework_admin_pb2.GetFrameworkResponse(devices=devices)
    settings = DashboardSettings(directory=below, framework=below / "main")
    found = targets_of(settings, None, framework)
    assert [target.name for target in found] == ["mine", "cpu", "framework"]


def test_a_supervisor_names_all_that_there_is(below: Path) -> None:
    supervisor = supervisor_pb2.ListProcessesResponse(processes=[supervised("npu")])
    assert [target.name for target in targets_of(DashboardSettings(directory=below), supervisor, None)] == ["npu"]


def test_a_directory_that_is_not_there_has_no_processes(tmp_path: Path) -> None:
    assert targets_of(DashboardSettings(directory=tmp_path / "none"), None, None) == []
