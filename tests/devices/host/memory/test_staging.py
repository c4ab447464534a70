from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnhal.memory import Pool, create_ashmem, create_blob, map_file, open_pool
from nnhal.memory.mmap_fd import create_file
from nnhal.types import DataLocation, Memory
from nnhal_devices.backend import MemoryKind, MemoryRules
from nnhal_devices.host.memory.staging import Staged, Staging, aligned_bytes, copy_in, copy_out, kind_of, locate
from tests.support.refusals import FAILURE, INVALID, refusal

ANYTHING = MemoryRules()
LOCATION = DataLocation(0, 16, 40)


def staged_in(memory: Memory, rules: MemoryRules, location: DataLocation = LOCATION) -> Staged:
    """Return where an argument lies that is not used in place."""
    found = locate(memory, open_pool(memory, writable=True), location, rules)
    assert isinstance(found, Staged)
    return found


def fill(memory: Memory, values: bytes) -> None:
    open_pool(memory, writable=True).write(0, np.frombuffer(values, np.uint8))


def content(pool: Pool) -> bytes:
    return pool.read(0, pool.size).tobytes()


MAKERS: dict[MemoryKind, Callable[[], Memory]] = {
    MemoryKind.ASHMEM: lambda: create_ashmem(64),
    MemoryKind.MMAP_FD: lambda: map_file(create_ashmem(70).descriptor, 64, 6),
    MemoryKind.HARDWARE_BUFFER_BLOB: lambda: create_blob(64),
}


@pytest.mark.parametrize("kind", MemoryKind)
def test_memory_of_a_kind_that_the_device_imports_is_used_in_place(kind: MemoryKind) -> None:
    memory = MAKERS[kind]()
    assert kind_of(memory) == kind
    pool = open_pool(memory, writable=True)
    found = locate(memory, pool, LOCATION, MemoryRules(frozenset({kind})))
    assert not isinstance(found, Staged)
    found[:] = 5
    assert content(pool) == bytes(16) + b"\5" * 40 + bytes(8)


@pytest.mark.parametrize("kind", MemoryKind)
def test_memory_of_a_kind_that_the_device_does_not_import_is_staged(kind: MemoryKind) -> None:
    found = staged_in(MAKERS[kind](), MemoryRules(frozenset(set(MemoryKind) - {kind})))
    assert (found.offset, len(found.data)) == (16, 40)


def test_a_file_that_may_shrink_is_staged_whatever_the_device_imports(tmp_path: Path) -> None:
    staged_in(create_file(tmp_path / "pool", 64), ANYTHING)


@pytest.mark.parametrize("alignment", [1, 2, 4, 64, 128, 256])
def test_memory_that_is_not_aligned_as_the_device_wants_it_is_staged(alignment: int) -> None:
    memory = create_ashmem(1024)
    pool = open_pool(memory, writable=True)
    for offset in range(0, 600, 2):
        found = locate(memory, pool, DataLocation(0, offset, 40), MemoryRules(alignment=alignment))
        assert isinstance(found, Staged) == (offset % alignment != 0)
        data = found.data if isinstance(found, Staged) else found
        assert data.ctypes.data % alignment == 0


@pytest.mark.parametrize("alignment", [1, 64, 256, 4096])
@pytest.mark.parametrize("size", [1, 100, 5000])
def test_staged_memory_is_aligned_for_the_device_and_for_vector_instructions(size: int, alignment: int) -> None:
    for _ in range(8):
        data = aligned_bytes(size, alignment)
        assert len(data) == size
        assert data.ctypes.data % max(alignment, 64) == 0


@pytest.mark.contract("BU-13")
def test_an_argument_beyond_the_end_of_the_pool_that_a_token_stands_for_is_refused() -> None:
    memory = create_ashmem(64)
    pool = open_pool(create_ashmem(32), writable=True)
    words = "an argument ends at byte 56 of its pool; the pool that is known under the same token has 32 bytes"
    refusal(lambda: locate(memory, pool, LOCATION, ANYTHING), INVALID, words)


@pytest.mark.parametrize("unsealed", [False, True])
def test_inputs_are_copied_in_and_outputs_out_and_both_are_counted(tmp_path: Path, unsealed: bool) -> None:
    memory: Memory = create_file(tmp_path / "pool", 64) if unsealed else create_ashmem(64)
    fill(memory, bytes(range(64)))
    rules = MemoryRules(frozenset())
    given, result = staged_in(memory, rules), staged_in(memory, rules, DataLocation(0, 2, 3))
    staging = Staging()
    copy_in([given], staging)
    assert given.data.tobytes() == bytes(range(16, 56))
    result.data[:] = 200
    copy_out([result], staging)
    assert content(open_pool(memory, writable=False)) == bytes((0, 1, 200, 200, 200, *range(5, 64)))
    assert staging.bytes == 43
    assert staging.duration_ns > 0


def test_an_output_that_was_not_copied_out_leaves_the_memory_as_it_was() -> None:
    memory = create_ashmem(64)
    staged_in(memory, MemoryRules(frozenset())).data[:] = 9
    assert content(open_pool(memory, writable=False)) == bytes(64)


def test_a_file_that_was_truncated_is_a_failure_both_ways(tmp_path: Path) -> None:
    memory = create_file(tmp_path / "pool", 64)
    found = staged_in(memory, ANYTHING)
    os.ftruncate(memory.descriptor.fileno(), 20)
    refusal(lambda: copy_in([found], Staging()), FAILURE, "truncated: 4 of 40 bytes at offset 16 are left")
    refusal(lambda: copy_out([found], Staging()), FAILURE, "truncated: not all of the 40 bytes at offset 16 are left")
