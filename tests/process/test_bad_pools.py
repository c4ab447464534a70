"""Memory that contradicts its description, or that changes after it was passed on."""

from __future__ import annotations

import mmap
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import BufferDescription, create_ashmem, create_blob, create_hardware_buffer, map_file
from nnhal.memory.ashmem import create_sealed
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice
from nnhal.types import Ashmem, ErrorStatus, HardwareBuffer, MappableFile, Memory, NativeHandle, Request
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
from tests.support.device_memory import allocate
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.resources import counts_of, resources_of
from tests.support.waiting import wait_until

READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


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


def a_pipe(_: Path) -> Descriptor:
    reader, writer = os.pipe()
    os.close(writer)
    return Descriptor(reader)


def a_socket(_: Path) -> Descriptor:
    ours, theirs = socket.socketpair()
    ours.close()
    return Descriptor(theirs.detach())


def a_directory(directory: Path) -> Descriptor:
    return Descriptor(os.open(directory, os.O_RDONLY))


def a_device_file(_: Path) -> Descriptor:
    return Descriptor(os.open("/dev/zero", os.O_RDWR))


def a_file(directory: Path, flags: int = os.O_RDWR, size: int = POOL_BYTES) -> Descriptor:
    path = directory / "pool"
    path.write_bytes(bytes(size))
    return Descriptor(os.open(path, flags | os.O_CLOEXEC))


def a_memfd(_: Path) -> Descriptor:
    descriptor = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), POOL_BYTES)
    return descriptor


def a_sealed_memfd(flags: int = os.O_RDWR, size: int = POOL_BYTES) -> Descriptor:
    sealed = create_sealed(size, "test")
    return Descriptor(os.open(f"/proc/self/fd/{sealed.fileno()}", flags | os.O_CLOEXEC))


def ashmem(descriptor: Descriptor, size: int = POOL_BYTES) -> Memory:
    return Ashmem(descriptor, size)


def file(descriptor: Descriptor, length: int = POOL_BYTES, prot: int = READ | WRITE, offset: int = 0) -> Memory:
    return MappableFile(descriptor, length, prot, offset)


def buffer(descriptors: tuple[Descriptor, ...] | None = None, **ints: int) -> Memory:
    good = create_blob(POOL_BYTES).handle
    numbers = dict(enumerate(good.ints)) | {int(key[1:]): value for key, value in ints.items()}
    return HardwareBuffer(
        NativeHandle(good.descriptors if descriptors is None else descriptors, tuple(numbers.values()))
    )


IMAGE = BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, Usage.CPU_READ_OFTEN, 8)


@dataclass(frozen=True)
class Bad:
    """A pool in which no argument can lie, and the error."""

    make: Callable[[Path], Memory]
    status: ErrorStatus
    words: str


NOT_SEALED = "not a memfd sealed"
BAD_POOLS = {
    "a pipe as ashmem": Bad(lambda d: ashmem(a_pipe(d)), INVALID, NOT_SEALED),
    "a socket as ashmem": Bad(lambda d: ashmem(a_socket(d)), INVALID, NOT_SEALED),
    "a directory as ashmem": Bad(lambda d: ashmem(a_directory(d)), INVALID, NOT_SEALED),
    "a file as ashmem": Bad(lambda d: ashmem(a_file(d)), INVALID, NOT_SEALED),
    "a memfd that may shrink as ashmem": Bad(lambda d: ashmem(a_memfd(d)), INVALID, NOT_SEALED),
    "ashmem that is too small": Bad(
        lambda _: ashmem(a_sealed_memfd(size=POOL_BYTES - 1)),
        INVALID,
        "needs 192 bytes, but the file behind it has 191",
    ),
    "ashmem of no bytes": Bad(lambda _: ashmem(a_sealed_memfd(), 0), INVALID, "ashmem of 0 bytes"),
    "ashmem of less than no bytes": Bad(lambda _: ashmem(a_sealed_memfd(), -1), INVALID, "ashmem of -1 bytes"),
    "ashmem of all bytes there are": Bad(lambda _: ashmem(a_sealed_memfd(), 2**63 - 1), INVALID, "the file behind it"),
    "ashmem that can only be written": Bad(lambda _: ashmem(a_sealed_memfd(os.O_WRONLY)), FAILURE, "cannot be mapped"),
    "a pipe as a file": Bad(lambda d: file(a_pipe(d)), INVALID, "not a regular file"),
    "a socket as a file": Bad(lambda d: file(a_socket(d)), INVALID, "not a regular file"),
    "a directory as a file": Bad(lambda d: file(a_directory(d)), INVALID, "not a regular file"),
    "a device as a file": Bad(lambda d: file(a_device_file(d)), INVALID, "not a regular file"),
    "a file that is too short": Bad(
        lambda d: file(a_file(d, size=POOL_BYTES - 1)), INVALID, "needs 192 bytes, but the file behind it has 191"
    ),
    "a file that ends before the pool": Bad(
        lambda d: file(a_file(d), offset=1), INVALID, "needs 193 bytes, but the file behind it has 192"
    ),
    "a file from before its start": Bad(lambda d: file(a_file(d), offset=-1), INVALID, "from byte -1"),
    "a file from beyond all bytes": Bad(lambda d: file(a_file(d), offset=2**63 - 1), INVALID, "the file behind it"),
    "no bytes of a file": Bad(lambda d: file(a_file(d), length=0), INVALID, "0 bytes of a file"),
    "a file with no protection": Bad(lambda d: file(a_file(d), prot=0), INVALID, "protection 0"),
    "a file that is to be executed": Bad(
        lambda d: file(a_file(d), prot=READ | mmap.PROT_EXEC), INVALID, "protection 5"
    ),
    "a file that can only be written": Bad(lambda d: file(a_file(d, os.O_WRONLY)), FAILURE, "cannot be read"),
    "a file that can only be named": Bad(lambda d: file(a_file(d, os.O_PATH)), FAILURE, "cannot be read"),
    "a sealed file that can only be written": Bad(
        lambda _: file(a_sealed_memfd(os.O_WRONLY)), FAILURE, "cannot be mapped"
    ),
    "a buffer without memory": Bad(lambda _: buffer(()), FAILURE, "0 descriptors"),
    "a buffer whose memory may shrink": Bad(lambda d: buffer((a_memfd(d),)), FAILURE, "not sealed"),
    "a buffer whose memory is too small": Bad(
        lambda _: buffer((a_sealed_memfd(size=POOL_BYTES - 1),)), FAILURE, "has 191 bytes, expected at least 192"
    ),
    "a buffer of another allocator": Bad(lambda _: buffer(i0=7), FAILURE, "its handle has magic 0x7"),
    "a buffer of no format": Bad(lambda _: buffer(i5=99), FAILURE, "format is 0x63"),
    "a buffer of negative width": Bad(lambda _: buffer(i2=-192, i8=-192), FAILURE, "-192 x 1 pixels"),
}


@pytest.mark.contract("RQ-14")
@pytest.mark.parametrize("name", BAD_POOLS)
def test_a_pool_that_contradicts_its_description_is_refused(device: RemoteDevice, name: str, tmp_path: Path) -> None:
    bad = BAD_POOLS[name]
    request = Request(
        (argument(0), argument(TENSOR_BYTES)), (argument(0, pool=1),), (bad.make(tmp_path), create_ashmem(TENSOR_BYTES))
    )
    prepared = device.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    calls: list[Callable[[], object]] = [
        partial(prepared.execute, request),
        partial(burst.execute, request, [-1, -1]),
        partial(burst.execute, request, [0, 1]),
        lambda: prepared.create_reusable_execution(request).execute(),
    ]
    for call in calls:
        refusal(call, bad.status, bad.words)
    refusal(lambda: device.prepare_model(addition_of_constant(bad.make(tmp_path))), bad.status, bad.words)
    if bad.status == FAILURE and isinstance(bad.make(tmp_path), HardwareBuffer):
        buffer = allocate(device, prepared, [0], [])
        for copy in (buffer.copy_from, buffer.copy_to):
            refusal(partial(copy, bad.make(tmp_path)), FAILURE, bad.words)
    good = addition_in_ashmem()
    good.check(lambda: burst.execute(good.request, [2]), 1, 2)


READ_ONLY_POOLS: dict[str, Callable[[Path], Memory]] = {
    "ashmem opened for reading": lambda _: ashmem(a_sealed_memfd(os.O_RDONLY)),
    "a file opened for reading": lambda d: file(a_file(d, os.O_RDONLY)),
    "a file with read protection": lambda d: file(a_file(d), prot=READ),
    "a sealed file opened for reading": lambda _: file(a_sealed_memfd(os.O_RDONLY)),
    "a sealed file with read protection": lambda _: file(a_sealed_memfd(), prot=READ),
}


@pytest.mark.parametrize("name", READ_ONLY_POOLS)
def test_an_output_in_read_only_memory_is_a_failure(device: RemoteDevice, name: str, tmp_path: Path) -> None:
    addition = addition_in_ashmem()
    pools = (*addition.request.pools, READ_ONLY_POOLS[name](tmp_path))
    request = Request(addition.request.inputs, (argument(0, pool=1),), pools)
    prepared = device.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    calls: list[Callable[[], object]] = [
        partial(prepared.execute, request),
        partial(burst.execute, request, [0, 1]),
        lambda: prepared.create_reusable_execution(request).execute(),
    ]
    for call in calls:
        refusal(call, FAILURE, "cannot be mapped|cannot be written|opened for writing")
    addition.check(lambda: burst.execute(addition.request, [0]), 1, 2)


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
