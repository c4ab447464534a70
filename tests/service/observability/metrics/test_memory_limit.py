from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_service.observability.metrics.memory_limit import MemoryLimit

HOST = (1000, 600)
"""The memory of the host, and what is used of it."""


def seen(tmp_path: Path, groups: str, files: dict[str, str]) -> tuple[float, float]:
    """What is used and the limit, with these lines of /proc/self/cgroup and files below /sys/fs/cgroup."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    limit, used = MemoryLimit(tmp_path / "proc", tmp_path / "cgroup").families(*HOST)
    return used.samples[0].value, limit.samples[0].value


def test_a_container_has_the_limit_of_its_group(tmp_path: Path) -> None:
    files = {"memory.max": "300\n", "memory.current": "250\n", "memory.stat": "anon 100\ninactive_file 50\n"}
    assert seen(tmp_path, "0::/\n", files) == (200, 300)


def test_a_container_that_knows_its_path_on_the_host_has_it_too(tmp_path: Path) -> None:
    files = {"memory/memory.limit_in_bytes": "300", "memory/memory.usage_in_bytes": "250"}
    groups = "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n"
    assert seen(tmp_path, groups, files | {"memory/memory.stat": "total_inactive_file 10"}) == (240, 300)


def test_the_tightest_limit_of_the_groups_around_counts(tmp_path: Path) -> None:
    files = {
        "system.slice/memory.max": "200",
        "system.slice/memory.current": "190",
        "system.slice/nnhal.service/memory.max": "400",
        "system.slice/nnhal.service/memory.current": "100",
    }
    assert seen(tmp_path, "0::/system.slice/nnhal.service\n", files) == (190, 200)


@pytest.mark.parametrize("limit", ["max\n", "9223372036854771712\n"])
def test_without_a_limit_it_is_the_memory_of_the_host(tmp_path: Path, limit: str) -> None:
    assert seen(tmp_path, "0::/\n", {"memory.max": limit, "memory.current": "5"}) == (600, 1000)


def test_without_control_groups_it_is_the_memory_of_the_host(tmp_path: Path) -> None:
    assert seen(tmp_path, "", {}) == (600, 1000)
