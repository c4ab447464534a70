"""The rows of the contract about IBuffer: copyFrom and copyTo."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import BufferDescription, create_ashmem, create_hardware_buffer, map_file
from nnhal.memory.ashmem import create_sealed
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteBuffer, RemoteDevice
from nnhal.types import Ashmem, ErrorStatus, Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import buffer_pb2, device_pb2
from tests.support.bystanders import bystander
from tests.support.device_memory import (
    COUNT,
    FLOAT32,
    KINDS,
    OPEN,
    SHAPE,
    Kind,
    allocate,
    contents,
    doubling,
    everything_given_back,
    memory_with,
    read,
    require_nothing_in,
    write,
)
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.wire import WireDevice


@pytest.fixture(autouse=True)
def nothing_is_left(cpu_ref: Endpoint) -> Iterator[None]:
    with everything_given_back(cpu_ref):
        yield


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def fixed(device: RemoteDevice, kind: Kind) -> RemoteBuffer:
    """Allocate a buffer of known dimensions, for the input and the output of a convolution."""
    return allocate(device, device.prepare_model(doubling(kind)), [0], [0])


@pytest.fixture
def flexible_buffer(device: RemoteDevice, kind: Kind) -> RemoteBuffer:
    """Allocate a buffer for any number of images."""
    return allocate(device, device.prepare_model(doubling(kind, OPEN)), [0], [0])


@pytest.mark.contract("MD-22", "MD-23", "MD-24")
def test_given_dimensions_determine_the_size_of_a_buffer_with_unknown_ones(
    flexible_buffer: RemoteBuffer, kind: Kind
) -> None:
    for images in (1, 2, 1):
        dimensions, size = (images, *SHAPE[1:]), images * kind.size
        for other in (size // 2, 2 * size):
            words = f"a source of {other} bytes, expected {size} for a buffer of dimensions .{images}, 32"
            refusal(partial(flexible_buffer.copy_from, create_ashmem(other), dimensions), INVALID, words)
        values = kind.values(images, images * COUNT)
        flexible_buffer.copy_from(memory_with(values), dimensions)
        assert contents(flexible_buffer, kind, len(values)).tolist() == values.tolist()


@pytest.mark.contract("MD-30", "MD-31", "MD-32", "MD-33", "MD-40")
@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        (SHAPE[:-1], "like the buffer's .., 32"),
        ((2, 32, 32, 4), "like the buffer's .., 32"),
        ((1, 32, 32, 0), "expected all known"),
        (OPEN, "expected all known"),
        ((), "no dimensions for a buffer of .., 32, 32, 8., expected all of them"),
        ((-1, 32, 32, 8), "expected none below 0"),
    ],
)
def test_all_dimensions_of_a_buffer_with_unknown_ones_must_be_given(
    flexible_buffer: RemoteBuffer, kind: Kind, dimensions: Dimensions, words: str
) -> None:
    for size in (kind.size // 2, kind.size):
        refusal(partial(flexible_buffer.copy_from, create_ashmem(size), dimensions), INVALID, words)


@pytest.mark.contract("MD-34", "MD-39")
def test_a_new_buffer_cannot_be_copied_and_its_size_is_checked_first(fixed: RemoteBuffer, kind: Kind) -> None:
    for size in (kind.size // 2, 2 * kind.size):
        words = f"a destination of {size} bytes, expected {kind.size}"
        refusal(partial(fixed.copy_to, create_ashmem(size)), INVALID, words)
    require_nothing_in(fixed, kind.size)


@pytest.mark.contract("MD-34")
def test_a_new_buffer_with_unknown_dimensions_has_no_size_to_check(flexible_buffer: RemoteBuffer, kind: Kind) -> None:
    for size in (1, kind.size, 2 * kind.size):
        require_nothing_in(flexible_buffer, size)


@pytest.mark.contract("MD-36")
def test_memory_to_copy_to_must_have_the_current_size_of_a_buffer_with_unknown_dimensions(
    flexible_buffer: RemoteBuffer, kind: Kind
) -> None:
    for images in (2, 1):
        size = images * kind.size
        flexible_buffer.copy_from(memory_with(kind.values(images, images * COUNT)), (images, *SHAPE[1:]))
        for other in (size // 2, 2 * size):
            words = f"a destination of {other} bytes, expected {size}"
            refusal(partial(flexible_buffer.copy_to, create_ashmem(other)), INVALID, words)
        assert contents(flexible_buffer, kind, images * COUNT).tolist() == kind.values(images, images * COUNT).tolist()


def unreadable() -> Memory:
    """Return ashmem that can only be written."""
    sealed = create_sealed(FLOAT32.size, "test")
    return Ashmem(Descriptor(os.open(f"/proc/self/fd/{sealed.fileno()}", os.O_WRONLY | os.O_CLOEXEC)), FLOAT32.size)


def unreadable_file(directory: Path) -> Memory:
    """Return a file that can only be written."""
    path = directory / "unreadable"
    path.write_bytes(bytes(FLOAT32.size))
    return map_file(Descriptor(os.open(path, os.O_WRONLY | os.O_CLOEXEC)), FLOAT32.size)


def truncated_file(directory: Path) -> Memory:
    """Return a file that has become one byte shorter."""
    file = create_file(directory / "truncated", FLOAT32.size)
    os.ftruncate(file.descriptor.fileno(), FLOAT32.size - 1)
    return file


def image(_: Path) -> Memory:
    """Return a hardware buffer of the right size that is not a BLOB."""
    usage = Usage.CPU_READ_OFTEN | Usage.CPU_WRITE_OFTEN
    return create_hardware_buffer(BufferDescription(128, 64, 1, Format.R8G8B8A8_UNORM, usage, 128))


@dataclass(frozen=True)
class Bad:
    """A copy that fails, and its error."""

    source: Callable[[Path], Memory]
    status: ErrorStatus
    words: str
    dimensions: Dimensions = SHAPE


BAD_COPIES = {
    "of half the size": Bad(lambda _: create_ashmem(FLOAT32.size // 2), INVALID, "a source of"),
    "of other dimensions": Bad(lambda _: create_ashmem(FLOAT32.size), INVALID, "like the buffer's", (1, 32, 32, 9)),
    "of negative dimensions": Bad(lambda _: create_ashmem(FLOAT32.size), INVALID, "none below 0", (-1, 32, 32, 8)),
    "from ashmem that cannot be read": Bad(lambda _: unreadable(), FAILURE, "cannot be mapped"),
    "from a file that cannot be read": Bad(unreadable_file, FAILURE, "cannot be read"),
    "from a truncated file": Bad(
        truncated_file, INVALID, "the source needs 32768 bytes, but the file behind it has 32767"
    ),
    "from an image": Bad(
        image, FAILURE, "the source is a hardware buffer of format R8G8B8A8_UNORM, expected format BLOB"
    ),
    "from memory of no bytes": Bad(lambda _: replace(create_ashmem(1), size=0), INVALID, "the source is ashmem of 0"),
}


@pytest.mark.contract("MD-37")
@pytest.mark.parametrize("name", BAD_COPIES)
@pytest.mark.parametrize("dimensions", [SHAPE, OPEN])
def test_a_copy_that_fails_leaves_the_buffer_uninitialised(
    device: RemoteDevice, tmp_path: Path, name: str, dimensions: Dimensions
) -> None:
    buffer = allocate(device, device.prepare_model(doubling(FLOAT32, dimensions)), [0], [0])
    bad = BAD_COPIES[name]
    for _ in range(2):
        buffer.copy_from(memory_with(FLOAT32.values(1)), SHAPE)
        copied = device.usage().buffer_copied_bytes
        refusal(partial(buffer.copy_from, bad.source(tmp_path), bad.dimensions), bad.status, bad.words)
        require_nothing_in(buffer, FLOAT32.size)
        assert device.usage().buffer_copied_bytes == copied


def test_copies_use_the_mapped_part_of_a_file(device: RemoteDevice, tmp_path: Path) -> None:
    buffer = allocate(device, device.prepare_model(doubling(FLOAT32)), [0], [0])
    size, offset = FLOAT32.size, 12345
    for descriptor in (create_file(tmp_path / "file", size + 20000).descriptor, create_sealed(size + 20000, "test")):
        part = map_file(descriptor, size, offset)
        write(part, FLOAT32.values(1))
        buffer.copy_from(part)
        write(part, FLOAT32.values(2))
        buffer.copy_to(part)
        whole = os.pread(descriptor.fileno(), size + 20000, 0)
        assert whole == bytes(offset) + FLOAT32.values(1).tobytes() + bytes(20000 - offset)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_read_only_file_is_a_source_but_not_a_destination(device: RemoteDevice, tmp_path: Path, sealed: bool) -> None:
    buffer = allocate(device, device.prepare_model(doubling(FLOAT32)), [0], [0])
    path, size = tmp_path / "file", FLOAT32.size
    writable = map_file(create_sealed(size, "test"), size) if sealed else create_file(path, size)
    write(writable, FLOAT32.values(1))
    number = writable.descriptor.fileno()
    reader = Descriptor(os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC))
    words = {
        map_file(writable.descriptor, size, writable=False): "protection PROT_READ cannot be opened for writing",
        map_file(reader, size, writable=False): "protection PROT_READ cannot be opened for writing",
        map_file(reader, size): "cannot be mapped" if sealed else "cannot be written",
    }
    for file, said in words.items():
        buffer.copy_from(file)
        refusal(partial(buffer.copy_to, file), FAILURE, said)
        assert contents(buffer).tolist() == FLOAT32.values(1).tolist()  # a failed copyTo changes nothing
    assert writable.prot == mmap.PROT_READ | mmap.PROT_WRITE
    assert read(writable).tolist() == FLOAT32.values(1).tolist()


@pytest.mark.parametrize(("make", "status"), [(truncated_file, INVALID), (image, FAILURE)])
def test_a_copy_to_a_destination_that_is_too_small_or_an_image_changes_nothing(
    device: RemoteDevice, tmp_path: Path, make: Callable[[Path], Memory], status: ErrorStatus
) -> None:
    buffer = allocate(device, device.prepare_model(doubling(FLOAT32)), [0], [0])
    buffer.copy_from(memory_with(FLOAT32.values(1)))
    refusal(lambda: buffer.copy_to(make(tmp_path)), status)
    assert contents(buffer).tolist() == FLOAT32.values(1).tolist()


def test_copies_without_memory_and_copies_of_unknown_buffers_are_invalid(wire: WireDevice) -> None:
    message = device_pb2.AllocateRequest(
        prepared_models=[wire.prepare(doubling(FLOAT32))],
        input_roles=[device_pb2.BufferRole(model_index=0, io_index=0, probability=1)],
    )
    buffer = wire.call(wire.device.Allocate, message).buffer
    refusal(lambda: wire.call(wire.buffer.CopyFrom, buffer_pb2.CopyFromRequest(buffer=buffer)), INVALID, "memory")
    refusal(lambda: wire.call(wire.buffer.CopyTo, buffer_pb2.CopyToRequest(buffer=buffer)), INVALID, "memory")
    for number in (0, -1, 2**62):
        words = f"device buffer {number} does not exist in this session"
        source, target = buffer_pb2.CopyFromRequest(buffer=number), buffer_pb2.CopyToRequest(buffer=number)
        refusal(partial(wire.call, wire.buffer.CopyFrom, source), INVALID, words)
        refusal(partial(wire.call, wire.buffer.CopyTo, target), INVALID, words)


def test_copying_a_file_that_shrinks_at_the_same_time_is_at_worst_an_error(
    cpu_ref: Endpoint, device: RemoteDevice, tmp_path: Path
) -> None:
    """A copy succeeds, is invalid if the file is too short, or fails if the file becomes too short during the copy."""
    prepared = device.prepare_model(doubling(FLOAT32))
    file = create_file(tmp_path / "file", FLOAT32.size)
    ended = threading.Event()

    def shrink_and_grow() -> None:
        while not ended.is_set():
            os.ftruncate(file.descriptor.fileno(), FLOAT32.size // 2)
            os.ftruncate(file.descriptor.fileno(), FLOAT32.size)

    with bystander(cpu_ref), ThreadPoolExecutor(1) as pool:
        work = pool.submit(shrink_and_grow)
        try:
            buffer = allocate(device, prepared, [0], [0])
            for _ in range(200):
                if refused(lambda: buffer.copy_from(file)):
                    require_nothing_in(buffer, FLOAT32.size)
                    buffer.copy_from(memory_with(FLOAT32.values(1)))
                refused(lambda: buffer.copy_to(file))
        finally:
            ended.set()
        work.result()
    buffer.copy_from(memory_with(FLOAT32.values(1)))
    assert contents(buffer).tolist() == FLOAT32.values(1).tolist()


def refused(copy: Callable[[], object]) -> bool:
    try:
        copy()
    except HalError as error:
        assert error.status in (INVALID, FAILURE)
        return True
    return False
