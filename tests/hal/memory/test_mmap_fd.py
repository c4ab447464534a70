from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from nnhal.memory import create_ashmem, map_file
from nnhal.memory.mmap_fd import create_file


def test_a_new_file_is_zeroed_and_readable_and_writable(tmp_path: Path) -> None:
    memory = create_file(tmp_path / "pool", 100)
    assert (tmp_path / "pool").read_bytes() == bytes(100)
    assert (memory.length, memory.offset, memory.prot) == (100, 0, mmap.PROT_READ | mmap.PROT_WRITE)


def test_a_new_file_replaces_an_old_one_and_is_its_owners_only(tmp_path: Path) -> None:
    (tmp_path / "pool").write_bytes(b"old" * 100)
    create_file(tmp_path / "pool", 10)
    assert (tmp_path / "pool").read_bytes() == bytes(10)
    create_file(tmp_path / "new", 10)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_memory_that_is_not_writable_has_read_protection() -> None:
    assert map_file(create_ashmem(10).descriptor, 4, 3, writable=False).prot == mmap.PROT_READ


def test_a_file_that_is_missing_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_file(tmp_path / "no" / "pool", 10)
