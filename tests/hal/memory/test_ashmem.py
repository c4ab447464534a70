from __future__ import annotations

import os

import pytest

from nnhal.descriptor import Descriptor
from nnhal.memory import create_ashmem
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
