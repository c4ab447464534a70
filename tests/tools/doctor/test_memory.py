"""Checks of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_tools.doctor.control_group import ControlGroup
from nnhal_tools.doctor.finding import Status
from nnhal_tools.doctor.memory import check_available, check_control_group, check_sealing, check_shared


@pytest.mark.parametrize(("mib", "status"), [(4096, Status.OK), (512, Status.WARN), (100, Status.FAIL)])
def test_available(tmp_path: Path, mib: int, status: Status) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 16000000 kB\nMemAvailable:  {mib * 1024} kB\n\nHugePages: 0\n")
    assert check_available(tmp_path).status is status


def test_available_is_not_known(tmp_path: Path) -> None:
    assert check_available(tmp_path).status is Status.WARN
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\n")
    assert check_available(tmp_path).status is Status.WARN


@pytest.mark.parametrize(
    ("most", "used", "status"),
    [("max", "5", Status.OK), (str(8 << 30), str(1 << 30), Status.OK), (str(1 << 30), str(1 << 30), Status.FAIL)],
)
def test_the_control_groups_limit(tmp_path: Path, most: str, used: str, status: Status) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(most)
    (tmp_path / "memory.current").write_text(used)
    assert check_control_group(ControlGroup(tmp_path, tmp_path)).status is status


def test_shared_memory_that_is_not_there(tmp_path: Path) -> None:
    finding = check_shared(tmp_path / "shm")
    assert finding.status is Status.FAIL and "tmpfs" in finding.todo


def test_shared_memory_says_what_is_free(tmp_path: Path) -> None:
    assert "free of" in check_shared(tmp_path).message


def test_pools_can_be_made_here() -> None:
    assert check_sealing().status is Status.OK
