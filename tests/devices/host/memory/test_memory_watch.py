"""What counts as the memory of a process, and what happens at its limit."""

from __future__ import annotations

import mmap
import resource

import numpy as np
import pytest

from nnhal.memory import create_ashmem, open_pool
from nnhal_devices.host.memory.memory_watch import MemoryWatch, own_bytes

MEBIBYTE = 1 << 20


def test_memory_that_is_shared_is_not_a_process_s_own() -> None:
    before = own_bytes()
    pool = open_pool(create_ashmem(256 * MEBIBYTE), writable=True)
    pool.view(0, 256 * MEBIBYTE)[:: mmap.PAGESIZE] = 1  # type: ignore[union-attr]
    assert own_bytes() - before < 64 * MEBIBYTE
    own = np.ones(128 * MEBIBYTE, np.uint8)
    assert own_bytes() - before > 64 * MEBIBYTE
    assert own.size


def test_a_process_without_free_descriptors_is_looked_at_too() -> None:
    watch = MemoryWatch(1 << 40, lambda: None)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            own_bytes()
        assert watch.used() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_process_ends_beyond_the_limit_only() -> None:
    used, ended = [100], list[str]()
    watch = MemoryWatch(100, lambda: ended.append("ended"), lambda: used[0])
    watch.look(lambda: ["a run"])
    assert not ended
    used[0] = 101
    watch.look(lambda: ["a run"])
    assert ended
