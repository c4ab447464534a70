"""Checks of limits."""

from __future__ import annotations

from pathlib import Path
from resource import RLIM_INFINITY

import pytest

from nnhal_tools.doctor.control_group import ControlGroup
from nnhal_tools.doctor.finding import Status
from nnhal_tools.doctor.limits import check_limits, check_locked_memory, check_open_files, check_threads


@pytest.mark.parametrize(
    ("soft", "hard", "status", "todo"),
    [
        (4096, 4096, Status.OK, ""),
        (RLIM_INFINITY, RLIM_INFINITY, Status.OK, ""),
        (1024, 524_288, Status.WARN, "ulimit -n 4096"),
        (1024, 2048, Status.WARN, "ulimit -n 2048"),
        (64, RLIM_INFINITY, Status.FAIL, "ulimit -n 4096"),
    ],
)
def test_open_files(soft: int, hard: int, status: Status, todo: str) -> None:
    finding = check_open_files(soft, hard)
    assert (finding.status, finding.todo) == (status, todo)


@pytest.mark.parametrize(("soft", "status"), [(RLIM_INFINITY, Status.OK), (65_536, Status.OK), (0, Status.WARN)])
def test_locked_memory(soft: int, status: Status) -> None:
    assert check_locked_memory(soft).status is status


@pytest.mark.parametrize(
    ("soft", "kernel", "most", "used", "status", "by"),
    [
        (RLIM_INFINITY, "96000", "max", "10", Status.OK, "kernel.threads-max"),
        (4000, "96000", "max", "10", Status.OK, "RLIMIT_NPROC"),
        (100, "96000", "max", "10", Status.WARN, "RLIMIT_NPROC"),
        (RLIM_INFINITY, "96000", "600", "200", Status.WARN, "pids.max"),
    ],
)
def test_threads(tmp_path: Path, soft: int, kernel: str, most: str, used: str, status: Status, by: str) -> None:
    group = _group(tmp_path, {"pids.max": most, "pids.current": used})
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/threads-max").write_text(f"{kernel}\n")
    finding = check_threads(soft, tmp_path, group)
    assert finding.status is status and finding.message.endswith(f"by {by}")


def test_threads_without_any_limit(tmp_path: Path) -> None:
    assert check_threads(RLIM_INFINITY, tmp_path, ControlGroup(tmp_path, tmp_path)).message == "no limit"


def test_this_process_has_all_three() -> None:
    group = ControlGroup(Path("/proc"), Path("/sys/fs/cgroup"))
    assert [f.check for f in check_limits(Path("/proc"), group)] == ["open files", "locked memory", "threads"]


def _group(folder: Path, files: dict[str, str]) -> ControlGroup:
    (folder / "self").mkdir()
    (folder / "self/cgroup").write_text("0::/box\n")
    (folder / "groups/box").mkdir(parents=True)
    for name, content in files.items():
        (folder / "groups/box" / name).write_text(f"{content}\n")
    return ControlGroup(folder, folder / "groups")
