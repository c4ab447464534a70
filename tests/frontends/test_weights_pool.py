"""A file with values of a model is copied when somebody looks at it, and not if it has changed until then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnhal.memory import create_read_only
from nnhal.types import Ashmem, MappableFile
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.weights_pool import WeightsPool
from tests.support.external_data import opened

CONTENT = np.arange(1 << 15, dtype=np.uint8)
A_DAY = 86_400 * 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "weights.bin"
    found.write_bytes(CONTENT.tobytes())
    return found


def pool_of(path: Path, flags: int = os.O_RDONLY) -> WeightsPool:
    return WeightsPool(opened(path, flags), len(CONTENT), path.name)


def test_nothing_is_copied_until_somebody_looks(path: Path) -> None:
    pool = pool_of(path)
    np.testing.assert_array_equal(pool.read(64, 128), CONTENT[64:192])
    kinds = [type(pool.reference)]
    np.testing.assert_array_equal(pool.values, CONTENT)
    assert [*kinds, type(pool.reference)] == [MappableFile, Ashmem]


def test_what_was_copied_stays(path: Path) -> None:
    pool = pool_of(path)
    assert len(pool.values) == len(CONTENT)
    os.truncate(path, 0)
    np.testing.assert_array_equal(pool.values, CONTENT)
    pool.require_unchanged()


def test_memory_that_cannot_change_is_used_as_it_is() -> None:
    memory = create_read_only([(0, CONTENT)], len(CONTENT))
    pool = WeightsPool(memory.descriptor, memory.size, "weights.bin")
    assert os.path.sameopenfile(pool.memory.descriptor.fileno(), memory.descriptor.fileno())
    assert pool.reference is pool.memory


def test_a_file_may_be_removed_or_replaced(path: Path) -> None:
    pool = pool_of(path)
    path.rename(path.with_name("other"))
    path.write_bytes(b"another file")
    path.with_name("other").unlink()
    pool.require_unchanged()
    np.testing.assert_array_equal(pool.values, CONTENT)


def rewritten(path: Path) -> None:
    path.write_bytes(CONTENT[::-1].tobytes())
    os.utime(path, ns=(0, path.stat().st_mtime_ns + A_DAY))  # however coarse the clock of the file system is


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rewritten, "'weights.bin' with values of the model has changed since it was handed over"),
        (lambda path: os.truncate(path, 99), "'weights.bin' .* cannot be read: the file has 99 bytes, expected 32768"),
    ],
)
def test_a_file_that_has_changed_is_refused(path: Path, change: Callable[[Path], None], reason: str) -> None:
    pool = pool_of(path)
    change(path)
    with pytest.raises(InvalidModel, match="has changed since it was handed over"):
        pool.require_unchanged()
    with pytest.raises(InvalidModel, match=reason):
        _ = pool.values


def test_values_that_are_gone_are_refused(path: Path) -> None:
    pool = pool_of(path)
    os.truncate(path, 99)
    with pytest.raises(InvalidModel, match="it has 99 bytes by now, expected 32768"):
        pool.read(64, 128)


def test_a_file_that_cannot_be_read_is_refused(path: Path) -> None:
    pool = pool_of(path, os.O_WRONLY)
    with pytest.raises(InvalidModel, match=r"'weights\.bin' .* cannot be read: Bad file descriptor"):
        pool.read(0, 1)
    with pytest.raises(InvalidModel, match="cannot be read: Bad file descriptor"):
        _ = pool.memory
