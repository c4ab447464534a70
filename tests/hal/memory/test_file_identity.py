from __future__ import annotations

import os
from pathlib import Path

from nnhal.descriptor import Descriptor
from nnhal.memory import MappedPool, create_ashmem, identity_of, is_regular, open_pool, seals_of
from nnhal.memory.ashmem import create_read_only
from nnhal.memory.mmap_fd import create_file
from nnhal.types import Ashmem


def test_two_descriptors_of_a_file_have_one_identity_and_two_files_have_two() -> None:
    memory, other = create_ashmem(64), create_ashmem(64)
    copy = memory.descriptor.duplicate()
    assert identity_of(copy.fileno()) == identity_of(memory.descriptor.fileno())
    assert identity_of(other.descriptor.fileno()) != identity_of(memory.descriptor.fileno())
    found = os.fstat(copy.fileno())
    assert str(identity_of(copy.fileno())) == f"{found.st_dev}:{found.st_ino}"


def test_files_are_told_from_sockets_and_pipes(tmp_path: Path) -> None:
    ends = [Descriptor(end) for end in os.pipe()]
    assert is_regular(create_ashmem(64).descriptor.fileno())
    assert is_regular(create_file(tmp_path / "file", 64).descriptor.fileno())
    assert not is_regular(ends[0].fileno())


def test_the_seals_of_files_are_known_by_name_and_only_of_those_that_are_asked_for(tmp_path: Path) -> None:
    ashmem, read_only = create_ashmem(64), create_read_only([], 64)
    file = create_file(tmp_path / "file", 64)
    identities = [identity_of(memory.descriptor.fileno()) for memory in (ashmem, read_only, file)]
    found = seals_of(identities)
    assert found[identities[0]] == ("seal", "shrink", "grow")
    assert found[identities[1]] == ("seal", "shrink", "grow", "write")
    assert found.get(identities[2], ()) == ()
    assert set(seals_of(identities[:1])) == {identities[0]}
    assert seals_of([]) == {}


def test_the_seals_of_memory_are_known_while_it_is_mapped_without_another_descriptor() -> None:
    memory = create_ashmem(64)
    descriptor = memory.descriptor.duplicate()
    pool = open_pool(Ashmem(descriptor, 64), writable=True)
    assert isinstance(pool, MappedPool)
    del memory
    descriptor.close()
    assert seals_of([pool.identity]) == {pool.identity: ("seal", "shrink", "grow")}
