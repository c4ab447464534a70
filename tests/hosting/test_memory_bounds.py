"""Memory that a process may use of its host, and of the control groups around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_hosting.memory_bounds import MemoryBounds


def memory_of(tmp_path: Path, groups: str, files: dict[str, str]) -> MemoryBounds:
    """The memory with these lines of /proc/self/cgroup and files below /sys/fs/cgroup; 1,000 KiB are available."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MemoryBounds(tmp_path / "proc", tmp_path / "cgroup")


def test_a_container_has_the_limit_of_its_group(tmp_path: Path) -> None:
    files = {"memory.max": "300\n", "memory.current": "250\n", "memory.stat": "anon 100\ninactive_file 50\n"}
    memory = memory_of(tmp_path, "0::/\n", files)
    assert list(memory.group_limits()) == [(200, 300)]
    assert memory.usual_limit() == memory.usual_limit(100) == 240


def test_a_container_that_knows_its_path_on_the_host_has_it_too(tmp_path: Path) -> None:
    files = {"memory/memory.limit_in_bytes": "300", "memory/memory.usage_in_bytes": "250"}
    groups = "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n"
    memory = memory_of(tmp_path, groups, files | {"memory/memory.stat": "total_inactive_file 10"})
    assert list(memory.group_limits()) == [(240, 300)]


def test_the_tightest_limit_of_the_groups_around_counts(tmp_path: Path) -> None:
    files = {
        "system.slice/memory.max": "200",
        "system.slice/memory.current": "190",
        "system.slice/nnhal.service/memory.max": "400",
        "system.slice/nnhal.service/memory.current": "100",
    }
    memory = memory_of(tmp_path, "0::/system.slice/nnhal.service\n", files)
    assert sorted(memory.group_limits()) == [(100, 400), (190, 200)]
    assert memory.usual_limit() == 160


@pytest.mark.parametrize("limit", ["max\n", "9223372036854771712\n"])
def test_without_a_limit_it_is_what_the_host_has_available(tmp_path: Path, limit: str) -> None:
    memory = memory_of(tmp_path, "0::/\n", {"memory.max": limit, "memory.current": "5"})
    assert list(memory.group_limits()) == []
    assert memory.usual_limit() == 819_200
    assert memory.usual_limit(5) == 819_205


def test_without_control_groups_it_is_that_too(tmp_path: Path) -> None:
    assert memory_of(tmp_path, "", {}).usual_limit() == 819_200


def test_a_host_that_does_not_say_what_is_available_has_nothing_to_give(tmp_path: Path) -> None:
    memory = memory_of(tmp_path, "", {})
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2000 kB\n")
    assert memory.usual_limit() == 0
    assert memory.usual_limit(100) == 100
