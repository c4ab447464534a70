"""Files that may shrink, on a device that maps them: cpu_acc."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import map_file
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice
from nnhal.types import MappableFile
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.bystanders import bystander
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.resources import resources_of
from tests.support.waiting import wait_until

ELEMENTS = 1 << 18
TENSOR_BYTES = 4 * ELEMENTS
POOL_BYTES = 3 * TENSOR_BYTES


@pytest.fixture
def acc(cpu_acc: Endpoint) -> Iterator[RemoteDevice]:
    """A session, beside which another executes; at the end, what it has mapped is unmapped."""
    with bystander(cpu_acc) as other:
        before = resources_of(other.device.pid)
        with RemoteDevice(cpu_acc, "test") as device:
            yield device
        wait_until(lambda: resources_of(other.device.pid).within(before), "descriptors and mappings are released")


def shared_file(size: int = POOL_BYTES) -> MappableFile:
    """Make a file of a tmpfs that may shrink."""
    descriptor = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC))
    os.ftruncate(descriptor.fileno(), size)
    return map_file(descriptor, size)


def truncate(memory: MappableFile, size: int) -> None:
    os.ftruncate(memory.descriptor.fileno(), size)


def test_it_is_used_in_place(acc: RemoteDevice) -> None:
    addition = Addition(shared_file(), ELEMENTS)
    prepared = acc.prepare_model(addition_model(ELEMENTS))
    execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
    staged = acc.usage().staged_bytes
    addition.check(lambda: burst.execute(addition.request, [0]), 1, 2)
    addition.check(lambda: burst.run(execution), 3, 4)
    addition.check(execution.execute, 5, 6)
    addition.check(lambda: prepared.execute(addition.request), 7, 8)
    assert acc.usage().staged_bytes == staged


def test_a_part_that_is_not_aligned_and_a_file_on_a_disk_are_staged(acc: RemoteDevice, tmp_path: Path) -> None:
    memory = shared_file(POOL_BYTES + 4)
    prepared = acc.prepare_model(addition_model(ELEMENTS))
    burst = prepared.configure_execution_burst()
    for pool in (replace(memory, length=POOL_BYTES, offset=4), create_file(tmp_path / "pool", POOL_BYTES)):
        addition = Addition(pool, ELEMENTS)
        staged = acc.usage().staged_bytes
        addition.check(partial(burst.execute, addition.request, [-1]), 1, 2)
        assert acc.usage().staged_bytes == staged + POOL_BYTES


@pytest.mark.parametrize("size", [0, TENSOR_BYTES, 2 * TENSOR_BYTES, POOL_BYTES - 1])
def test_a_mapping_is_lost_when_the_file_shrinks(acc: RemoteDevice, size: int) -> None:
    memory = shared_file()
    addition = Addition(memory, ELEMENTS)
    prepared = acc.prepare_model(addition_model(ELEMENTS))
    execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
    ways: list[Callable[[], object]] = [execution.execute, lambda: burst.run(execution)]
    known: Callable[[], object] = partial(burst.execute, addition.request, [0])
    for run in [*ways, known]:
        addition.check(run, 1, 2)
    truncate(memory, size)
    for run in ways:
        refusal(run, FAILURE, f"a file pool has been truncated: its file has {size} bytes, expected {POOL_BYTES}")
    refusal(known, INVALID, f"the file behind it has {size}")
    truncate(memory, POOL_BYTES)
    for run in ways:
        refusal(run, FAILURE, "a file pool has been truncated")
    addition.check(partial(burst.execute, addition.request, [-1]), 3, 4)
    addition.check(prepared.create_reusable_execution(addition.request).execute, 3, 4)


def test_the_runs_of_others_and_later_ones_are_right_while_files_shrink_and_grow(acc: RemoteDevice) -> None:
    """Executions fail or end, and the device goes on, whatever the owner of a file does to it."""
    memory = shared_file()
    addition = Addition(memory, ELEMENTS)
    prepared = acc.prepare_model(addition_model(ELEMENTS))
    burst = prepared.configure_execution_burst()
    ending = threading.Event()

    def resize() -> None:
        while not ending.is_set():
            for size in (0, TENSOR_BYTES + 4, 2 * TENSOR_BYTES, POOL_BYTES):
                truncate(memory, size)

    failures = 0
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(resize)
        try:
            while failures < 100:
                try:
                    burst.execute(addition.request, [-1])
                except HalError as error:
                    assert error.status in (FAILURE, INVALID), error
                    failures += error.status == FAILURE
        finally:
            ending.set()
        work.result()
    addition.check(lambda: burst.execute(addition.request, [-1]), 1, 2)
    other = addition_in_ashmem(ELEMENTS)
    other.check(lambda: burst.execute(other.request, [-1]), 3, 4)


def test_a_device_that_is_told_so_stages_every_file(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_MAP_FILES", "0")
    with device_process("cpu_acc", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as device:
        memory = shared_file()
        addition = Addition(memory, ELEMENTS)
        execution = device.prepare_model(addition_model(ELEMENTS)).create_reusable_execution(addition.request)
        addition.check(execution.execute, 1, 2)
        assert device.usage().staged_bytes == POOL_BYTES
        truncate(memory, 0)
        refusal(execution.execute, FAILURE, "a file pool has been truncated")
        truncate(memory, POOL_BYTES)
        addition.check(execution.execute, 1, 2)
