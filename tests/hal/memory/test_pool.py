from __future__ import annotations

import array
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.memory import (
    BufferDescription,
    FilePool,
    MappedPool,
    create_ashmem,
    create_blob,
    create_hardware_buffer,
    map_file,
    open_pool,
    read_pools,
    validate_bytes,
    validate_pool,
)
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.memory.mmap_fd import create_file
from nnhal.memory.pool import is_blob_or_flat
from nnhal.types import Ashmem, ErrorStatus, HardwareBuffer, MappableFile, Memory, NativeHandle

READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


def image() -> HardwareBuffer:
    return create_hardware_buffer(BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, Usage(0), 8))


def unsealed(size: int) -> Descriptor:
    descriptor = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), size)
    return descriptor


def file_of(content: bytes, flags: int = os.O_RDWR) -> Descriptor:
    """Make a file in memory that may shrink, opened with ``flags``."""
    descriptor = unsealed(0)
    os.pwrite(descriptor.fileno(), content, 0)
    return Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", flags))


def bytes_of(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)


@pytest.mark.parametrize("memory", [create_ashmem(100), create_blob(100), map_file(unsealed(103), 100, 3)])
@pytest.mark.contract("MV-02")
def test_a_valid_pool_has_its_size(memory: Memory) -> None:
    assert validate_pool(memory, "pool 0") == 100
    assert is_blob_or_flat(memory)


@pytest.mark.contract("MV-02")
def test_an_image_has_no_size_that_a_location_could_lie_in() -> None:
    assert validate_pool(image(), "pool 0") == 0
    assert not is_blob_or_flat(image())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ashmem(create_ashmem(64).descriptor, 0), "pool 7 is ashmem of 0 bytes"),
        (lambda: Ashmem(create_ashmem(64).descriptor, -1), "pool 7 is ashmem of -1 bytes"),
        (lambda: Ashmem(create_ashmem(64).descriptor, 65), "pool 7 needs 65 bytes, but the file behind it has 64"),
        (lambda: Ashmem(unsealed(64), 64), "pool 7 is ashmem that is not a memfd sealed against shrinking"),
        (lambda: Ashmem(Descriptor(os.pipe()[0]), 64), "pool 7 is ashmem that is not a memfd"),
        (lambda: MappableFile(unsealed(64), 0, READ), "pool 7 is 0 bytes of a file"),
        (lambda: MappableFile(unsealed(64), -1, READ), "pool 7 is -1 bytes of a file"),
        (lambda: MappableFile(unsealed(64), 8, READ, -1), "from byte -1"),
        (lambda: MappableFile(unsealed(64), 8, READ, 57), "pool 7 needs 65 bytes, but the file behind it has 64"),
        (lambda: MappableFile(unsealed(64), 8, READ, 2**63 - 1), "pool 7 needs"),
        (lambda: MappableFile(unsealed(64), 8, 0), "pool 7 is a file with protection 0"),
        (lambda: MappableFile(unsealed(64), 8, READ | 4), "pool 7 is a file with protection 5"),
        (lambda: MappableFile(unsealed(64), 8, -1), "pool 7 is a file with protection -1"),
        (lambda: MappableFile(Descriptor(os.open("/dev/zero", os.O_RDWR)), 8, READ), "pool 7 is not a regular file"),
        (lambda: MappableFile(Descriptor(os.open("/", os.O_RDONLY)), 8, READ), "pool 7 is not a regular file"),
    ],
)
@pytest.mark.contract("MV-02")
def test_an_invalid_pool_is_refused_with_its_place(make: Callable[[], Memory], message: str) -> None:
    with pytest.raises(HalError, match=message) as refusal:
        validate_pool(make(), "pool 7")
    assert refusal.value.status == ErrorStatus.INVALID_ARGUMENT


@pytest.mark.contract("MV-02")
def test_a_hardware_buffer_that_cannot_be_used_is_a_failure_with_its_place() -> None:
    cases: list[tuple[Memory, str]] = [
        (HardwareBuffer(NativeHandle((), ())), "pool 7 is an invalid hardware buffer: its handle has 0 descriptors"),
        (
            HardwareBuffer(NativeHandle((unsealed(64),), create_blob(64).handle.ints)),
            "pool 7 is an invalid hardware buffer: its memory is not sealed",
        ),
        (image(), "pool 7 is a hardware buffer of format R8G8B8A8_UNORM, expected format BLOB"),
    ]
    for memory, message in cases:
        with pytest.raises(HalError, match=message) as refusal:
            validate_bytes(memory, "pool 7")
        assert refusal.value.status == ErrorStatus.GENERAL_FAILURE


@pytest.mark.parametrize(
    "make", [create_ashmem, create_blob, lambda n: map_file(create_ashmem(n + 5).descriptor, n, 5)]
)
def test_memory_that_cannot_shrink_is_used_in_place(make: Callable[[int], Memory]) -> None:
    memory = make(300)
    pool = open_pool(memory, writable=True)
    assert isinstance(pool, MappedPool)
    assert (pool.size, pool.writable) == (300, True)
    pool.write(10, bytes_of(b"abc"))
    assert pool.view(9, 5).tobytes() == pool.read(9, 5).tobytes() == b"\0abc\0"
    other = open_pool(memory, writable=False)
    assert other.read(10, 3).tobytes() == b"abc"
    assert not other.writable


def test_a_copy_of_a_range_does_not_follow_the_memory() -> None:
    pool = open_pool(create_ashmem(8), writable=True)
    copy = pool.read(0, 8)
    pool.write(0, bytes_of(b"\1" * 8))
    assert copy.tobytes() == bytes(8)


def test_a_file_that_may_shrink_is_read_and_written_and_never_mapped(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    path.write_bytes(b"0123456789")
    descriptor = Descriptor(os.open(path, os.O_RDWR))
    pool = open_pool(map_file(descriptor, 6, 2), writable=True)
    assert isinstance(pool, FilePool)
    assert pool.size == 6
    assert pool.read(0, 6).tobytes() == b"234567"
    pool.write(1, bytes_of(b"xy"))
    assert path.read_bytes() == b"012xy56789"
    assert str(path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("left", [0, 3, 9])
def test_a_truncated_file_is_an_error_and_no_signal(tmp_path: Path, left: int) -> None:
    memory = create_file(tmp_path / "pool", 10)
    pool = open_pool(memory, writable=True)
    os.ftruncate(memory.descriptor.fileno(), left)
    with pytest.raises(HalError, match=f"truncated: {left} of 10 bytes at offset 0 are left") as refusal:
        pool.read(0, 10)
    assert refusal.value.status == ErrorStatus.GENERAL_FAILURE
    with pytest.raises(HalError, match="truncated: not all of the 10 bytes at offset 0 are left") as refusal:
        pool.write(0, bytes_of(b"x" * 10))
    assert refusal.value.status == ErrorStatus.GENERAL_FAILURE
    assert (tmp_path / "pool").stat().st_size == left


@pytest.mark.contract("RQ-14")
def test_a_file_that_its_descriptor_cannot_read_or_write_is_a_failure_of_the_pool() -> None:
    unreadable = open_pool(map_file(file_of(b"abcd", os.O_WRONLY), 4), writable=True)
    with pytest.raises(HalError, match="a file pool cannot be read: Bad file descriptor") as refusal:
        unreadable.read(0, 4)
    assert refusal.value.status == ErrorStatus.GENERAL_FAILURE
    unwritable = open_pool(map_file(file_of(b"abcd", os.O_RDONLY), 4), writable=True)
    with pytest.raises(HalError, match="a file pool cannot be written: Bad file descriptor") as refusal:
        unwritable.write(0, bytes_of(b"x"))
    assert refusal.value.status == ErrorStatus.GENERAL_FAILURE


@pytest.mark.contract("RQ-14")
def test_what_cannot_be_mapped_is_a_failure_of_the_pool() -> None:
    descriptor = create_ashmem(64).descriptor
    readable_only = Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", os.O_RDONLY))
    cases: list[tuple[Memory, str]] = [
        (image(), "a pool cannot be mapped: it is a hardware buffer of format R8G8B8A8_UNORM, expected format BLOB"),
        (
            map_file(create_ashmem(64).descriptor, 64, writable=False),
            "with protection PROT_READ cannot be opened for writing",
        ),
        (Ashmem(readable_only, 64), "a pool cannot be mapped: .*Permission denied"),
    ]
    for memory, message in cases:
        with pytest.raises(HalError, match=message) as refusal:
            open_pool(memory, writable=True)
        assert refusal.value.status == ErrorStatus.GENERAL_FAILURE


@pytest.mark.contract("RQ-16")
def test_memory_that_may_only_be_read_opens_for_reading() -> None:
    descriptor = create_ashmem(64).descriptor
    readable_only = Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", os.O_RDONLY))
    for memory in (Ashmem(readable_only, 64), map_file(readable_only, 64, writable=False)):
        assert validate_pool(memory, "pool 0") == 64
        assert open_pool(memory, writable=False).read(0, 64).tobytes() == bytes(64)


def test_the_pools_of_a_model_are_read_only_and_only_those_in_use_are_opened(tmp_path: Path) -> None:
    file = create_file(tmp_path / "pool", 4)
    contents = read_pools([create_ashmem(8), image(), file], used=[0, 2])
    assert {index: len(content) for index, content in contents.items()} == {0: 8, 2: 4}
    with pytest.raises(ValueError, match="read-only"):
        contents[0][0] = 1


def test_constants_in_a_file_are_those_it_had_when_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    path.write_bytes(b"abcd")
    (content,) = read_pools([map_file(Descriptor(os.open(path, os.O_RDWR)), 4)]).values()
    path.write_bytes(b"")
    assert content.tobytes() == b"abcd"


def set_immutable(descriptor: Descriptor, immutable: bool) -> None:
    """Set or take away a file's flag that rules out changes, as chattr does."""
    flags = array.array("l", [0x10 if immutable else 0])
    try:
        fcntl.ioctl(descriptor.fileno(), 0x40086602, flags)  # FS_IOC_SETFLAGS of linux/fs.h
    except OSError:
        pytest.skip("needs CAP_LINUX_IMMUTABLE, and a file system with such a flag")


@pytest.mark.parametrize("directory", ["/dev/shm", "/tmp"])
def test_a_file_that_is_immutable_for_a_while_is_not_mapped(directory: str) -> None:
    path = Path(directory) / f"nnhal-immutable-{os.getpid()}"
    memory = create_file(path, 8192)
    path.unlink()
    set_immutable(memory.descriptor, True)
    pool = open_pool(memory, writable=False)
    set_immutable(memory.descriptor, False)
    os.ftruncate(memory.descriptor.fileno(), 0)
    with pytest.raises(HalError, match="a file pool has been truncated: 0 of 8192 bytes at offset 0 are left"):
        pool.read(0, 8192)


def test_huge_pages_are_no_ashmem() -> None:
    try:
        descriptor = Descriptor(os.memfd_create("huge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | os.MFD_HUGETLB))
    except OSError:
        pytest.skip("the kernel has no huge pages")
    os.ftruncate(descriptor.fileno(), 2 << 20)
    fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    with pytest.raises(HalError, match="of ordinary pages"):
        validate_pool(Ashmem(descriptor, 4096), "the pool")
