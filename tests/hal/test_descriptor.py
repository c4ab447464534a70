from __future__ import annotations

import gc
import os

import pytest

from nnhal.descriptor import Descriptor


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def descriptor() -> Descriptor:
    return Descriptor(os.memfd_create("test"))


def test_is_closed_with_its_last_reference(descriptor: Descriptor) -> None:
    owned = descriptor.duplicate()
    fd = owned.fileno()
    other = owned
    del owned
    assert is_open(fd)
    del other
    gc.collect()
    assert not is_open(fd)


def test_closing_twice_closes_nothing_of_anybody_else(descriptor: Descriptor) -> None:
    fd = descriptor.fileno()
    descriptor.close()
    assert not is_open(fd)
    reused = Descriptor(os.dup(0))
    descriptor.close()
    assert is_open(reused.fileno())


def test_a_closed_descriptor_has_no_number(descriptor: Descriptor) -> None:
    descriptor.close()
    with pytest.raises(ValueError, match="closed"):
        descriptor.fileno()
    with pytest.raises(ValueError, match="closed"):
        descriptor.duplicate()


def test_a_duplicate_is_the_same_file_and_closes_by_itself(descriptor: Descriptor) -> None:
    duplicate = descriptor.duplicate()
    assert duplicate.fileno() != descriptor.fileno()
    assert os.fstat(duplicate.fileno()).st_ino == os.fstat(descriptor.fileno()).st_ino
    descriptor.close()
    assert is_open(duplicate.fileno())


def test_a_detached_number_is_its_takers_to_close(descriptor: Descriptor) -> None:
    fd = descriptor.detach()
    del descriptor
    gc.collect()
    assert is_open(fd)
    os.close(fd)


def test_duplicates_are_not_inherited_by_children(descriptor: Descriptor) -> None:
    assert not os.get_inheritable(descriptor.duplicate().fileno())


def test_two_descriptors_of_one_number_are_two_keys(descriptor: Descriptor) -> None:
    assert len({descriptor, descriptor.duplicate()}) == 2


def test_memory_is_filled_from_a_place_on_as_far_as_the_file_goes() -> None:
    file = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC))
    os.pwrite(file.fileno(), b"abcdef", 0)
    memory = bytearray(4)
    assert file.read_into(memoryview(memory), 1) == 4
    assert memory == b"bcde"
    assert file.read_into(memoryview(memory), 4) == 2
    assert memory == b"efde"
    assert file.read_into(memoryview(memory), 9) == 0
