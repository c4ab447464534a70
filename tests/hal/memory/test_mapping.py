from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from nnhal.arrays import Bytes
from nnhal.memory import Region, create_ashmem, mapped_regions, open_pool

SIZE = 3 * mmap.ALLOCATIONGRANULARITY


@pytest.fixture
def name() -> Iterator[str]:
    """A name that shows in /proc/self/maps. Everything that a test maps is unmapped at its end."""
    gc.collect()  # what other tests have left in reference cycles
    before = mapped_regions()
    name = f"test-{uuid4().hex}"
    yield name
    gc.collect()
    assert not is_mapped(name)
    assert mapped_regions() == before


def is_mapped(name: str) -> bool:
    return name in Path("/proc/self/maps").read_text()


def lone_view(name: str) -> Bytes:
    """Make a view of 100 bytes that holds the only reference to its memory."""
    memory = create_ashmem(SIZE, name)
    view = Region(memory.descriptor, SIZE).bytes()[100:200]
    memory.descriptor.close()
    gc.collect()
    return view


def test_a_view_keeps_the_mapping_when_everything_else_is_gone(name: str) -> None:
    count, size = mapped_regions()
    view = lone_view(name)
    assert mapped_regions() == (count + 1, size + SIZE)
    assert is_mapped(name)
    view[:] = 7
    assert view.sum() == 700


def test_the_mapping_ends_with_the_last_view(name: str) -> None:
    before = mapped_regions()
    view = lone_view(name)
    last = view[10:20].view(np.int16)
    del view
    gc.collect()
    assert is_mapped(name)
    del last
    gc.collect()
    assert not is_mapped(name)
    assert mapped_regions() == before


def test_closing_a_region_takes_nothing_from_anybody(name: str) -> None:
    region = Region(create_ashmem(SIZE, name).descriptor, SIZE)
    region.close()
    with region:
        pass
    assert is_mapped(name)
    region.bytes()[:] = 1


def test_a_pool_that_is_dropped_leaves_its_views_valid() -> None:
    memory = create_ashmem(64)
    view = open_pool(memory, writable=True).read(0, 64)
    kept = Region(memory.descriptor, 64).bytes()
    del memory
    gc.collect()
    kept[:] = 9
    assert kept.sum() == 9 * 64
    assert view.sum() == 0


@pytest.mark.parametrize("offset", [0, 1, 17, mmap.ALLOCATIONGRANULARITY, mmap.ALLOCATIONGRANULARITY + 3])
def test_an_offset_need_not_be_a_multiple_of_a_page(offset: int) -> None:
    memory = create_ashmem(SIZE)
    content = bytes(range(251)) * (SIZE // 251)
    os.pwrite(memory.descriptor.fileno(), content, 0)
    view = Region(memory.descriptor, 500, offset).bytes()
    assert view.tobytes() == content[offset : offset + 500]
    view[:] = 0
    assert os.pread(memory.descriptor.fileno(), SIZE, 0) == content[:offset] + bytes(500) + os.pread(
        memory.descriptor.fileno(), SIZE, offset + 500
    )


def test_a_region_that_is_not_writable_has_read_only_views() -> None:
    view = Region(create_ashmem(64).descriptor, 64, writable=False).bytes()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_what_is_written_shows_in_every_mapping_of_the_memory() -> None:
    memory = create_ashmem(64)
    Region(memory.descriptor, 64).bytes()[5] = 42
    assert Region(memory.descriptor, 64, writable=False).bytes()[5] == 42


def test_more_than_the_file_has_is_never_mapped() -> None:
    memory = create_ashmem(64)
    gc.collect()
    before = mapped_regions()
    with pytest.raises(ValueError, match="length"):
        Region(memory.descriptor, SIZE)
    gc.collect()
    assert mapped_regions() == before
