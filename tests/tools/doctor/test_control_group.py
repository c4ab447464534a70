"""Limits of control groups, in both versions."""

from __future__ import annotations

from pathlib import Path

from nnhal_tools.doctor.control_group import ControlGroup


def _group(folder: Path, lines: str, files: dict[str, str]) -> ControlGroup:
    (folder / "self").mkdir()
    (folder / "self/cgroup").write_text(lines)
    for name, content in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return ControlGroup(folder, folder / "groups")


def test_version_2_has_a_folder_for_the_group(tmp_path: Path) -> None:
    group = _group(tmp_path, "0::/a/b\n", {"a/b/memory.max": "1000\n", "memory.max": "5\n"})
    assert group.number("memory.max") == 1000


def test_in_a_container_the_root_is_the_group(tmp_path: Path) -> None:
    group = _group(tmp_path, "0::/docker/1234\n", {"memory.max": "5\n"})
    assert group.number("memory.max") == 5


def test_version_1_has_other_names_and_no_word_for_no_limit(tmp_path: Path) -> None:
    files = {
        "memory/box/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n",
        "memory/box/memory.usage_in_bytes": "77\n",
        "pids/box/pids.max": "9\n",
    }
    group = _group(tmp_path, "3:memory:/box\n2:pids,other:/box\n", files)
    assert [group.number(name) for name in ("memory.max", "memory.current", "pids.max")] == [None, 77, 9]


def test_no_limit_and_no_group_are_none(tmp_path: Path) -> None:
    assert _group(tmp_path, "0::/\n", {"memory.max": "max\n"}).number("memory.max") is None
    assert ControlGroup(tmp_path / "none", tmp_path).number("memory.max") is None
