"""What a session owns: memory of every kind, prepared models, executions and bursts, and when they go."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, map_file, open_pool
from nnhal.memory.ashmem import create_sealed
from nnhal.remote import RemoteDevice
from nnhal.types import Ashmem, DataLocation, MappableFile, Memory, Request, RequestArgument
from nnhal.v1 import backend_pb2, device_pb2, execution_pb2, prepared_model_pb2
from tests.support.additions import (
    ELEMENTS,
    POOL_BYTES,
    POOL_KINDS,
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    argument,
)
from tests.support.refusals import INVALID, refusal
from tests.support.waiting import wait_until
from tests.support.wire import WireDevice

Run = Callable[[], object]


def synchronously(device: RemoteDevice, request: Request) -> Run:
    prepared = device.prepare_model(addition_model())
    return lambda: prepared.execute(request)


def reusably(device: RemoteDevice, request: Request) -> Run:
    return device.prepare_model(addition_model()).create_reusable_execution(request).execute


def in_a_burst(device: RemoteDevice, request: Request) -> Run:
    burst = device.prepare_model(addition_model()).configure_execution_burst()
    return lambda: burst.execute(request, [0])


def reusably_in_a_burst(device: RemoteDevice, request: Request) -> Run:
    prepared = device.prepare_model(addition_model())
    burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(request)
    return lambda: burst.run(execution)


WAYS = [synchronously, reusably, in_a_burst, reusably_in_a_burst]


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    """A session with each of the devices."""
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as device:
        yield device


@pytest.mark.contract("RE-01", "RE-05", "BU-02")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", POOL_KINDS)
def test_any_pool_serves_any_way_of_executing(
    any_device: RemoteDevice, kind: str, way: Callable[[RemoteDevice, Request], Run], tmp_path: Path
) -> None:
    addition = Addition(POOL_KINDS[kind](POOL_BYTES, tmp_path))
    run = way(any_device, addition.request)
    staged_before = any_device.usage().staged_bytes
    addition.check(run, 1, 2)
    addition.check(run, -3.5, 40)
    staged = any_device.usage().staged_bytes - staged_before
    assert staged == (2 * POOL_BYTES if kind == "unsealed file" else 0)


def test_a_burst_says_what_was_staged_for_each_execution(any_device: RemoteDevice, tmp_path: Path) -> None:
    prepared = any_device.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    for kind, make in POOL_KINDS.items():
        addition = Addition(make(POOL_BYTES, tmp_path))
        outcomes = [
            burst.execute(addition.request, [-1]),
            burst.run(prepared.create_reusable_execution(addition.request)),
        ]
        staged = POOL_BYTES if kind == "unsealed file" else 0
        assert [outcome.staged_bytes for outcome in outcomes] == [staged, staged], kind
        assert all((outcome.staging_ns > 0) == (staged > 0) for outcome in outcomes)


def test_an_argument_that_a_device_cannot_use_where_it_lies_is_staged(cpu_acc: Endpoint) -> None:
    addition = Addition(create_ashmem(POOL_BYTES))
    apart = Request(
        (argument(0), argument(TENSOR_BYTES)), (argument(4, pool=1),), (*addition.request.pools, create_ashmem(128))
    )
    with RemoteDevice(cpu_acc, "test") as device:
        burst = device.prepare_model(addition_model()).configure_execution_burst()
        addition.fill(1, 2)
        assert burst.execute(apart, [-1, -1]).staged_bytes == TENSOR_BYTES  # cpu_acc wants 64-byte alignment
    memory = apart.pools[1]
    assert isinstance(memory, Ashmem)
    sums = open_pool(memory, writable=False).read(4, TENSOR_BYTES).view(np.float32)
    np.testing.assert_array_equal(sums, np.float32(3))


def reopened_read_only(descriptor: Descriptor) -> Descriptor:
    return Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", os.O_RDONLY | os.O_CLOEXEC))


def read_only_ashmem(_: Path) -> tuple[Memory, Descriptor]:
    memory = create_ashmem(2 * TENSOR_BYTES)
    return Ashmem(reopened_read_only(memory.descriptor), memory.size), memory.descriptor


def read_only_sealed_file(_: Path) -> tuple[Memory, Descriptor]:
    sealed = create_sealed(2 * TENSOR_BYTES, "test")
    return map_file(reopened_read_only(sealed), 2 * TENSOR_BYTES, writable=False), sealed


def read_only_unsealed_file(directory: Path) -> tuple[Memory, Descriptor]:
    path = directory / "inputs"
    path.write_bytes(bytes(2 * TENSOR_BYTES))
    return map_file(Descriptor(os.open(path, os.O_RDONLY)), 2 * TENSOR_BYTES, writable=False), Descriptor(
        os.open(path, os.O_RDWR)
    )


def file_with_read_protection(_: Path) -> tuple[Memory, Descriptor]:
    sealed = create_sealed(2 * TENSOR_BYTES, "test")
    return MappableFile(sealed, 2 * TENSOR_BYTES, mmap.PROT_READ), sealed


@pytest.mark.contract("RQ-16", "EX-01")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "make", [read_only_ashmem, read_only_sealed_file, read_only_unsealed_file, file_with_read_protection]
)
def test_inputs_may_lie_in_memory_that_can_only_be_read(
    any_device: RemoteDevice,
    way: Callable[[RemoteDevice, Request], Run],
    make: Callable[[Path], tuple[Memory, Descriptor]],
    tmp_path: Path,
) -> None:
    inputs, writer = make(tmp_path)
    outputs = create_ashmem(TENSOR_BYTES)
    request = Request((argument(0), argument(TENSOR_BYTES)), (argument(0, pool=1),), (inputs, outputs))
    sums = open_pool(outputs, writable=False)
    run = way(any_device, request) if way is not in_a_burst else two_pools_in_a_burst(any_device, request)
    for first in (5, 6):
        os.pwrite(writer.fileno(), np.full(2 * ELEMENTS, first, np.float32).tobytes(), 0)
        run()
        np.testing.assert_array_equal(sums.read(0, TENSOR_BYTES).view(np.float32), np.float32(2 * first))


def two_pools_in_a_burst(device: RemoteDevice, request: Request) -> Run:
    burst = device.prepare_model(addition_model()).configure_execution_burst()
    return lambda: burst.execute(request, [0, 1])


@pytest.mark.contract("RQ-15", "RQ-17")
def test_one_range_serves_several_inputs_and_a_pool_may_be_of_no_use(any_device: RemoteDevice) -> None:
    addition = addition_in_ashmem()
    request = Request(
        (argument(0), argument(0)), addition.request.outputs, (*addition.request.pools, create_ashmem(1))
    )
    prepared = any_device.prepare_model(addition_model())
    addition.fill(21, 0)
    prepared.execute(request)
    np.testing.assert_array_equal(addition.total(), np.float32(42))


def test_a_prepared_model_takes_its_constants_from_any_pool(any_device: RemoteDevice, tmp_path: Path) -> None:
    for make in POOL_KINDS.values():
        weights = make(POOL_BYTES, tmp_path)
        pool = open_pool(weights, writable=True)
        pool.write(TENSOR_BYTES, np.full(ELEMENTS, 7, np.float32).view(np.uint8))
        prepared = any_device.prepare_model(with_constant_term(weights))
        addition = addition_in_ashmem()
        request = Request((argument(0),), addition.request.outputs, addition.request.pools)
        addition.fill(1, 0)
        prepared.execute(request)
        np.testing.assert_array_equal(addition.total(), np.float32(8))


def with_constant_term(pool: Memory) -> object:
    raise AssertionError
