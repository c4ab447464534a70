"""Memory that counts as a process's own."""

from __future__ import annotations

import mmap
import resource

import numpy as np
import pytest

from nnhal.memory import create_ashmem, open_pool
from nnhal_hosting.own_memory import OwnBytes

MEBIBYTE = 1 << 20


def test_memory_that_is_shared_is_not_a_process_s_own() -> None:
    used = OwnBytes()
    before = used()
    pool = open_pool(create_ashmem(256 * MEBIBYTE), writable=True)
    pool.view(0, 256 * MEBIBYTE)[:: mmap.PAGESIZE] = 1  # type: ignore[union-attr]
    assert used() - before < 64 * MEBIBYTE
    own = np.ones(128 * MEBIBYTE, np.uint8)
    assert used() - before > 64 * MEBIBYTE
    assert own.size


def test_a_process_without_free_descriptors_is_looked_at_too() -> None:
    used = OwnBytes()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            OwnBytes()
        assert used() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
