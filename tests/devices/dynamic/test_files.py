from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal_devices.dynamic.files import (
    BackendFileKind,
    BackendName,
    find_backend_files,
    looks_meant,
    missing_bytes,
    parse_name,
)
from tests.support.backends import build_extension, warnings_logged


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def names(directories: list[Path]) -> list[str]:
    return [file.path.name for file in find_backend_files(directories)]


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_directories_are_taken_in_order_and_names_by_the_alphabet(place: Path) -> None:
    first, second = place / "z", place / "a"
    for path in (first / "B_b_backend.so", first / "A_c_backend.py", second / "A_a_backend.so.2", first / "other.txt"):
        touch(path)
    with warnings_logged() as warned:
        found = find_backend_files([first, second])
    assert [file.path for file in found] == [
        first / "A_c_backend.py",
        first / "B_b_backend.so",
        second / "A_a_backend.so.2",
    ]
    assert warned == []


def test_no_directory_has_nothing(place: Path) -> None:
    with warnings_logged() as warned:
        assert find_backend_files([]) == []
        assert find_backend_files([place]) == []
    assert warned == []


@pytest.mark.parametrize("changed", ["directory", "above", "file", "target"])
def test_what_others_may_change_is_not_executed(place: Path, changed: str) -> None:
    (place / "above").mkdir()
    file = touch(place / "above" / "directory" / "A_a_backend.py")
    target = touch(place / "elsewhere" / "target.py")
    link = file.with_name("A_b_backend.py")
    link.symlink_to(target)
    which = {"directory": file.parent, "above": file.parent.parent, "file": file, "target": target.parent}[changed]
    which.chmod(which.stat().st_mode | 0o022)
    with warnings_logged() as warned:
        left = names([file.parent])
    assert left == {"file": ["target.py"], "target": [file.name]}.get(changed, [])
    assert len(warned) == 1
    assert f"{which}: mode" in warned[0].reason
    assert "lets others write there" in warned[0].reason


def test_directories_of_no_use_are_warnings_and_the_others_are_searched(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    good = touch(place / "good/A_a_backend.py").parent
    file = touch(place / "file")
    with warnings_logged() as warned:
        assert names([Path("good"), place / "nowhere", file, good]) == ["A_a_backend.py"]
    assert warned == [
        ("good", "the path is not absolute"),
        ("nowhere", "No such file or directory"),
        ("file", "Not a directory"),
    ]


def test_a_name_that_looks_meant_is_a_warning_and_others_are_passed_over_silently(place: Path) -> None:
    for name in ("A_a_backend.py", "a_backend.so", "A_a_backend.so.", "A_a.so", "__pycache__"):
        touch(place / name)
    with warnings_logged() as warned:
        assert names([place]) == ["A_a_backend.py"]
    assert [warning.name for warning in warned] == ["A_a_backend.so.", "a_backend.so"]
    assert all("<vendor>_<name>_backend" in warning.reason for warning in warned)


def test_a_chain_of_links_is_one_file_by_its_canonical_path(place: Path) -> None:
    real = touch(place / "A_a_backend.so.1.2.3")
    (place / "A_a_backend.so.1.2").symlink_to(real)
    (place / "A_a_backend.so.1").symlink_to("A_a_backend.so.1.2")
    (place / "A_a_backend.so").symlink_to("A_a_backend.so.1")
    with warnings_logged() as warned:
        assert [file.path for file in find_backend_files([place])] == [real]
    assert warned == []


def test_a_file_that_two_directories_reach_is_found_in_the_first(place: Path) -> None:
    first, second = place / "first", place / "second"
    real, other = touch(second / "A_a_backend.so"), touch(second / "A_b_backend.so")
    first.mkdir()
    (first / "A_a_backend.so").symlink_to(real)
    (place / "again").symlink_to(second)
    with warnings_logged() as warned:
        assert [file.path for file in find_backend_files([first, second, place / "again"])] == [real, other]
    assert warned == []


def test_files_of_the_same_name_in_two_directories_are_two(place: Path) -> None:
    paths = [touch(place / folder / "A_a_backend.so") for folder in ("first", "second")]
    assert [file.path for file in find_backend_files([path.parent for path in paths])] == paths


@pytest.mark.parametrize(
    ("target", "reason"),
    [("nowhere", "No such file or directory"), ("A_no_backend.so", "Too many levels of symbolic links")],
)
def test_a_link_that_leads_nowhere_is_a_warning(place: Path, target: str, reason: str) -> None:
    (place / "A_no_backend.so").symlink_to(target)
    touch(place / "A_yes_backend.so")
    with warnings_logged() as warned:
        assert names([place]) == ["A_yes_backend.so"]
    assert warned == [("A_no_backend.so", reason)]


def test_what_is_no_regular_file_is_a_warning(place: Path) -> None:
    (place / "A_directory_backend.so").mkdir()
    os.mkfifo(place / "A_fifo_backend.py")
    (place / "A_null_backend.so").symlink_to("/dev/null")
    with warnings_logged() as warned:
        assert names([place]) == []
    assert warned == [
        (name, "no regular file") for name in ("A_directory_backend.so", "A_fifo_backend.py", "A_null_backend.so")
    ]


def test_the_module_is_that_of_the_target_where_its_name_says_one_and_else_that_of_the_link(place: Path) -> None:
    touch(place / "X_real_backend.py")
    touch(place / "anything")
    (place / "A_link_backend.so").symlink_to("X_real_backend.py")
    (place / "B_link_backend.so.1").symlink_to("anything")
    assert [tuple(file.name) for file in find_backend_files([place])] == [
        ("X_real_backend", BackendFileKind.SOURCE),
        ("B_link_backend", BackendFileKind.EXTENSION),
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a shared object."""
    return build_extension(tmp_path_factory.mktemp("elf") / "Acme_Native_backend.so").read_bytes()


def test_a_whole_one_misses_nothing(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "whole"
    path.write_bytes(whole)
    assert missing_bytes(path) == 0


def test_one_cut_short_misses_what_its_segments_had(tmp_path: Path, whole: bytes) -> None:
    path, half = tmp_path / "cut", len(whole) // 2
    path.write_bytes(whole[:half])
    missing = missing_bytes(path)
    assert 0 < missing <= len(whole) - half
    path.write_bytes(whole[: half + missing])
    assert missing_bytes(path) == 0


@pytest.mark.parametrize("length", [0, 10, 63, 100])
def test_one_without_its_whole_header_is_left_to_the_linker(tmp_path: Path, whole: bytes, length: int) -> None:
    path = tmp_path / "header"
    path.write_bytes(whole[:length])
    assert missing_bytes(path) == 0


def test_another_format_is_left_to_the_linker(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\x7fELF\x01" + bytes(1000))
    assert missing_bytes(path) == 0


VALID = {
    "Arm_GpuAcc_backend.so": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1.2": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1.2.3": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.10.1.27": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.0.0.0.0.0": "Arm_GpuAcc_backend",
    "Arm123_GpuAcc_backend.so": "Arm123_GpuAcc_backend",
    "Arm_GpuAcc456_backend.so": "Arm_GpuAcc456_backend",
    "1_2_backend.so.3": "1_2_backend",
    "a_backend_backend.so": "a_backend_backend",
    "Arm_GpuAcc_backend.py": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.py.1": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.py.10.1.27": "Arm_GpuAcc_backend",
}
MEANT_AND_INVALID = [
    "Arm_GpuAcc_backend.so.",
    "Arm_GpuAcc_backend.so.10.1.33.",
    "Arm_GpuAcc_backend.so.3.4..5",
    "Arm_GpuAcc_backend.so..1",
    "Arm_GpuAcc_backend.so.1,1.1",
    "Arm_GpuAcc_backend.so.1a",
    "Arm_GpuAcc_backend.so.v1",
    "Arm_GpuAcc_backend.so1",
    "Arm_GpuAcc_backend.so\n",
    "Arm_GpuAcc_backend.so.\N{ARABIC-INDIC DIGIT ONE}",
    "Arm_GpuAcc_backend.py~",
    "Arm_GpuAcc_backend.pyc",
    "Arm_GpuAcc_backend.py.so",
    "Arm_GpuAcc_backend.SO",
    "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.",
    "Arm_GpuAcc_backend_v1.2.so",
    "Arm$Co_GpuAcc_backend.so",
    "Arm-Co_GpuAcc_backend.so",
    "Ärm_GpuAcc_backend.so",
    "Arm_Gpu.Acc_backend.so",
    "Arm_Gpu_Acc_backend.so",
    "libArm_Gpu Acc_backend.so",
    "GpuAcc_backend.so",
    "_GpuAcc_backend.so",
    "Arm__backend.so",
    "__backend.so",
    "_backend.so",
    ".Arm_GpuAcc_backend.so.swp",
]
NOT_MEANT = [
    "Arm_GpuAcc.so",
    "__.so",
    "Arm_GpuAcc_Backend.so",
    "backend.so",
    "libm.so.6",
    "README.md",
    "__pycache__",
    "",
]


@pytest.mark.parametrize("file_name", VALID)
def test_a_valid_name_says_module_and_kind(file_name: str) -> None:
    kind = BackendFileKind.SOURCE if ".py" in file_name else BackendFileKind.EXTENSION
    assert parse_name(file_name) == BackendName(VALID[file_name], kind)


@pytest.mark.parametrize("file_name", MEANT_AND_INVALID)
def test_a_name_that_nearly_keeps_the_rule_is_none_but_looks_meant(file_name: str) -> None:
    assert parse_name(file_name) is None
    assert looks_meant(file_name)


@pytest.mark.parametrize("file_name", NOT_MEANT)
def test_another_name_is_none_and_does_not_look_meant(file_name: str) -> None:
    assert parse_name(file_name) is None
    assert not looks_meant(file_name)
