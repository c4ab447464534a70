"""Memory that contradicts its description, or that changes after it was passed on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import BufferDescription, create_hardware_buffer, map_file
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice
from nnhal.types import MappableFile, Request
from tests.support.additions import (
    ELEMENTS,
    POOL_BYTES,
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    addition_of_constant,
    argument,
)
from tests.support.bystanders import bystander
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.resources import counts_of, resources_of
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def others_are_unharmed(cpu_ref: Endpoint) -> Iterator[None]:
    """Keep another session executing during each test, and check that the process then holds no more than before."""
    with bystander(cpu_ref) as other:
        device = other.device
        before, resources = counts_of(device.usage(), "sessions"), resources_of(device.pid)
        yield
        wait_until(lambda: released(device, before), "the objects of the test's sessions are released")
        wait_until(lambda: resources_of(device.pid).within(resources), "descriptors and mappings are released")


def released(device: RemoteDevice, before: tuple[int, ...]) -> bool:
    """Return whether a device holds no more than before; what an earlier test left may be gone as well."""
    return all(now <= then for now, then in zip(counts_of(device.usage(), "sessions"), before, strict=True))


def a_file(directory: Path) -> Descriptor:
    path = directory / "pool"
    path.write_bytes(bytes(POOL_BYTES))
    return Descriptor(os.open(path, os.O_RDWR | os.O_CLOEXEC))


IMAGE = BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, Usage.CPU_READ_OFTEN, 8)


@pytest.mark.contract("RQ-14")
def test_an_execution_on_an_image_buffer_fails(device: RemoteDevice) -> None:
    addition = addition_in_ashmem()
    pools = (*addition.request.pools, create_hardware_buffer(IMAGE))
    whole = argument(0, 0, pool=1)
    prepared = device.prepare_model(addition_model())
    for request in (
        Request((whole, addition.request.inputs[1]), addition.request.outputs, pools),
        Request(addition.request.inputs, (whole,), pools),
    ):
        refusal(
            partial(prepared.execute, request),
            FAILURE,
            "cannot be mapped: it is a hardware buffer of format R8G8B8A8_UNORM",
        )
    model = addition_of_constant(create_hardware_buffer(IMAGE))
    refusal(lambda: device.prepare_model(model), FAILURE, "a hardware buffer of images, expected one of format BLOB")
    refusal(lambda: device.supported_operations(model), FAILURE, "a hardware buffer of images")


def truncated(memory: MappableFile, size: int) -> None:
    os.ftruncate(memory.descriptor.fileno(), size)


@pytest.mark.parametrize("size", [0, TENSOR_BYTES - 1, 2 * TENSOR_BYTES - 1, POOL_BYTES - 1])
def test_truncating_a_file_between_executions_is_only_an_error(device: RemoteDevice, size: int, tmp_path: Path) -> None:
    memory = create_file(tmp_path / "pool", POOL_BYTES)
    addition = Addition(memory)
    prepared = device.prepare_model(addition_model())
    execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
    ways: list[Callable[[], object]] = [
        execution.execute,
        partial(burst.run, execution),
        partial(burst.execute, addition.request, [0]),
    ]
    for run in ways:
        addition.check(run, 1, 2)
    truncated(memory, size)
    for run in ways[:2]:
        refusal(run, FAILURE, "a file pool has been truncated")
    refusal(ways[2], INVALID, f"the file behind it has {size}")
    truncated(memory, POOL_BYTES)
    for run in ways:
        addition.check(run, 3, 4)


def test_truncating_a_file_during_executions_is_only_an_error(device: RemoteDevice, tmp_path: Path) -> None:
    memory = create_file(tmp_path / "pool", POOL_BYTES)
    addition = Addition(memory)
    prepared = device.prepare_model(addition_model())
    execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
    ending = threading.Event()

    def truncate_on() -> None:
        while not ending.is_set():
            for size in (0, 2 * TENSOR_BYTES, POOL_BYTES):
                truncated(memory, size)

    failures = 0
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(truncate_on)
        try:
            for _ in range(500):
                try:
                    burst.run(execution)
                except HalError as error:
                    assert error.status == FAILURE
                    failures += 1
        finally:
            ending.set()
        work.result()
    assert failures
    addition.check(lambda: burst.run(execution), 1, 2)


def test_constants_are_kept_when_their_file_is_truncated(device: RemoteDevice, tmp_path: Path) -> None:
    weights = map_file(a_file(tmp_path), POOL_BYTES)
    os.pwrite(weights.descriptor.fileno(), np.full(ELEMENTS, 7, np.float32).tobytes(), 0)
    prepared = device.prepare_model(addition_of_constant(weights))
    truncated(weights, 0)
    addition = addition_in_ashmem()
    addition.fill(1, 0)
    prepared.execute(addition.of_one_term)
    np.testing.assert_array_equal(addition.total(), np.float32(8))
    refusal(lambda: device.prepare_model(addition_of_constant(weights)), INVALID, "the file behind it has 0")
