from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.memory import cannot_change, create_ashmem, create_blob, create_read_only, map_file, open_pool, read_only
from nnhal.memory.ashmem import cannot_shrink


def test_new_memory_is_zeroed_and_of_the_size_asked_for() -> None:
    memory = create_ashmem(5000)
    assert memory.size == os.fstat(memory.descriptor.fileno()).st_size == 5000
    assert os.pread(memory.descriptor.fileno(), 6000, 0) == bytes(5000)


@pytest.mark.parametrize("size", [0, 4999, 5001])
def test_its_size_cannot_be_changed(size: int) -> None:
    memory = create_ashmem(5000)
    with pytest.raises(PermissionError):
        os.ftruncate(memory.descriptor.fileno(), size)


@pytest.mark.parametrize("size", [0, -1])
def test_memory_of_no_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"the pool has {size} bytes, expected more than 0"):
        create_ashmem(size)


def test_it_is_not_inherited_by_children() -> None:
    assert not os.get_inheritable(create_ashmem(1).descriptor.fileno())


def test_what_is_not_sealed_or_cannot_be_sealed_may_shrink() -> None:
    unsealed = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    reading, writing = (Descriptor(fd) for fd in os.pipe())
    assert cannot_shrink(create_ashmem(1).descriptor)
    assert not cannot_shrink(unsealed)
    assert not cannot_shrink(reading)
    writing.close()


def test_read_only_memory_holds_its_contents_and_nobody_can_change_it() -> None:
    memory = create_read_only([(2, np.array([1, 2], np.uint8)), (6, np.array([3], np.uint8))], 8)
    pool = open_pool(memory, writable=False)
    assert pool.read(0, 8).tolist() == [0, 0, 1, 2, 0, 0, 3, 0]
    writing = os.open(f"/proc/self/fd/{memory.descriptor.fileno()}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.pwrite(writing, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(writing, 8)
    for size in (0, 7, 9):
        with pytest.raises(PermissionError):
            os.ftruncate(writing, size)
    os.close(writing)


def test_memory_of_which_the_kernel_holds_a_page_is_sealed_when_it_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    seal, refusals = fcntl.fcntl, iter(range(3))

    def held(number: int, command: int, seals: int = 0) -> int:
        if command == fcntl.F_ADD_SEALS and next(refusals, None) is not None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return seal(number, command, seals)

    monkeypatch.setattr(fcntl, "fcntl", held)
    assert cannot_change(create_read_only([(0, np.ones(3, np.uint8))], 3))
    assert next(refusals, None) is None


@pytest.mark.parametrize("size", [0, -1])
def test_read_only_memory_of_no_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"the pool has {size} bytes, expected more than 0"):
        create_read_only([], size)


def test_only_memory_that_is_sealed_against_writing_and_shrinking_cannot_change() -> None:
    read_only = create_read_only([], 8)
    half = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(half.fileno(), 8)
    fcntl.fcntl(half.fileno(), fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert cannot_change(read_only)
    assert cannot_change(map_file(read_only.descriptor, 8, writable=False))
    for memory in (create_ashmem(8), create_blob(8), map_file(half, 8, writable=False)):
        assert not cannot_change(memory)


def opened(path: Path) -> Descriptor:
    return Descriptor(os.open(path, os.O_RDWR))


def test_a_file_that_may_change_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"weights" * 1000)
    memory = read_only(opened(path), 7000)
    path.write_bytes(b"")
    assert cannot_change(memory)
    assert os.pread(memory.descriptor.fileno(), 8000, 0) == b"weights" * 1000


def test_memory_that_cannot_change_is_used_in_place() -> None:
    given = create_read_only([(0, np.arange(100, dtype=np.uint8))], 100)
    found = read_only(given.descriptor, 100)
    assert os.path.sameopenfile(found.descriptor.fileno(), given.descriptor.fileno())
    assert found.size == 100


def test_a_copy_has_the_holes_of_its_file(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 3 << 30
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size // 2)
        file.write(b"middle")
    memory = read_only(opened(path), size)
    status = os.fstat(memory.descriptor.fileno())
    assert (memory.size, status.st_size) == (size, size)
    assert status.st_blocks * 512 < 1 << 20
    assert os.pread(memory.descriptor.fileno(), 8, size // 2 - 1) == b"\0middle\0"


def test_a_copy_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="the pool has 0 bytes, expected more than 0"):
        read_only(opened(tmp_path / "file"), 0)


def test_a_copy_is_of_as_many_bytes_as_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"weights")
    memory = read_only(opened(tmp_path / "file"), 3)
    assert (memory.size, os.pread(memory.descriptor.fileno(), 8, 0)) == (3, b"wei")
    with pytest.raises(ValueError, match="the file has 7 bytes, expected 8"):
        read_only(opened(tmp_path / "file"), 8)
