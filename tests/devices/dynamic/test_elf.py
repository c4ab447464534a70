from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_devices.dynamic.elf import missing_bytes
from tests.support.backends import build_extension


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
