"""Copies to and from device memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from nnhal.errors import HalError
from nnhal.memory import (
    BufferDescription,
    create_hardware_buffer,
    map_file,
    open_pool,
)
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import Memory
from nnhal.v1 import buffer_pb2
from nnhal_conformance.device import Subject
from nnhal_conformance.device_buffers import DeviceBuffer
from nnhal_conformance.rule import FAILURE, INVALID, refused, require, rule
from nnhal_conformance.rules.pools import KINDS, bad_pools, read_only_pools, unsealed_file, unusable_pools
from nnhal_conformance.small_models import SHAPE

GROUP = "buffer-copies"
_PAGE = "client.md#where-it-lies"
_ROUNDS = 60


@rule(GROUP, _PAGE, "MD-16", "MD-28", "MD-29", "MD-38")
def copies(device: Subject) -> None:
    """A buffer holds what was copied to it."""
    buffer = DeviceBuffer.on(device)
    content = bytes(range(buffer.size % 251)).ljust(buffer.size, b"\x07")
    buffer.copy_from(content)
    require(buffer.copy_to(buffer.size) == content, "other bytes", "those that were copied to it")
    buffer.copy_from(content[::-1], SHAPE)
    require(buffer.copy_to(buffer.size) == content[::-1], "other bytes", "those that were copied to it")


@rule(GROUP, _PAGE, "MD-21", "MD-25", "MD-26", "MD-27", "MD-35", "MD-37", "MD-40")
def sizes(device: Subject) -> None:
    """Copies of another size or of other dimensions are INVALID_ARGUMENT; after a failed copy it holds nothing."""
    buffer = DeviceBuffer.on(device)
    size, rows, columns = buffer.size, *SHAPE
    refused(lambda: buffer.copy_from(bytes(size // 2)), INVALID, what="half the size")
    refused(lambda: buffer.copy_from(bytes(2 * size)), INVALID, what="twice the size")
    for dimensions in ((rows,), (rows + 1, columns), (0, columns), (-1, columns)):
        refused(partial(buffer.copy_from, bytes(size), dimensions), INVALID, what=f"dimensions {dimensions}")
    refused(lambda: buffer.copy_to(size), FAILURE, what="copyTo after a copyFrom that failed")
    buffer.copy_from(bytes(size))
    refused(lambda: buffer.copy_to(size // 2), INVALID, what="copyTo of half the size")
    refused(lambda: buffer.copy_to(2 * size), INVALID, what="copyTo of twice the size")


@rule(GROUP, _PAGE, "MD-34", "MD-39")
def size_first(device: Subject) -> None:
    """The size of memory is looked at first: another one is INVALID_ARGUMENT though the buffer holds nothing."""
    buffer = DeviceBuffer.on(device)
    for size in (buffer.size // 2, 2 * buffer.size):
        refused(partial(buffer.copy_to, size), INVALID, what=f"copyTo of {size} bytes")
    buffer.require_nothing()


@rule(GROUP, _PAGE)
def kinds(device: Subject) -> None:
    """Copies go to and come from each kind of memory, and leave what lies around a part of a file as it is."""
    buffer = DeviceBuffer.on(device)
    for what, create in KINDS.items():
        memory = create(buffer.size)
        pool = open_pool(memory, writable=True)
        buffer.fill(1)
        buffer.copy_to_memory(memory)
        expected = buffer.held.small.values(1)[0].tobytes()
        require(pool.read(0, buffer.size).tobytes() == expected, f"other bytes in {what}", "those of the buffer")
        pool.write(0, np.frombuffer(expected[::-1], np.uint8))
        buffer.copy_from_memory(memory)
        require(buffer.copy_to(buffer.size) == expected[::-1], f"other bytes of {what}", "those that it holds")
    file = unsealed_file(buffer.size + 9_000)
    buffer.copy_to_memory(map_file(file, buffer.size, 4_321))
    whole = os.pread(file.fileno(), buffer.size + 9_000, 0)
    around = whole[:4_321] + whole[4_321 + buffer.size :]
    require(not any(around), "bytes beside the part", "none that have changed")


@rule(GROUP, _PAGE)
def read_only(device: Subject) -> None:
    """Memory that can only be read is a source, and not a destination; a copyTo that fails changes nothing."""
    buffer = DeviceBuffer.on(device)
    content = buffer.held.small.values(3)[0].tobytes()
    for what, pool in read_only_pools(content).items():
        buffer.copy_from_memory(pool)
        buffer.require_values(3)
        refused(partial(buffer.copy_to_memory, pool), FAILURE, INVALID, what=what)
        buffer.require_values(3)


def _image() -> Memory:
    usage = Usage.CPU_READ_OFTEN | Usage.CPU_WRITE_OFTEN
    return create_hardware_buffer(BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, usage, 8))


@rule(GROUP, _PAGE, "MD-37")
def bad_memory(device: Subject) -> None:
    """Memory that contradicts its description, cannot be mapped or has images is refused: after such a copyFrom the
    buffer holds nothing, after such a copyTo what it held.
    """
    buffer = DeviceBuffer.on(device)
    for status, pools in (
        (INVALID, bad_pools(buffer.size)),
        (FAILURE, unusable_pools(buffer.size) | {"a hardware buffer of images": _image()}),
    ):
        for what, pool in pools.items():
            buffer.fill(1)
            if not what.endswith("only be written"):
                refused(partial(buffer.copy_to_memory, pool), status, what=f"copyTo {what}")
            buffer.require_values(1)
            refused(partial(buffer.copy_from_memory, pool), status, what=f"copyFrom {what}")
            buffer.require_nothing()
        buffer.held.session.link.drop()


@rule(GROUP, _PAGE)
def incomplete(device: Subject) -> None:
    """Copies without memory and of buffers that do not exist are INVALID_ARGUMENT."""
    buffer = DeviceBuffer.on(device)
    session = buffer.held.session
    for number in (buffer.made.buffer, 0, -1, 2**62):
        source, target = buffer_pb2.CopyFromRequest(buffer=number), buffer_pb2.CopyToRequest(buffer=number)
        refused(partial(session.call, session.buffer.CopyFrom, source), INVALID, what=f"copyFrom of buffer {number}")
        refused(partial(session.call, session.buffer.CopyTo, target), INVALID, what=f"copyTo of buffer {number}")


def shrinking(file: int, size: int, call: Callable[[], object]) -> None:
    """Make a call again and again while a file shrinks and grows: INVALID_ARGUMENT and GENERAL_FAILURE are allowed."""
    ended = threading.Event()

    def shrink_and_grow() -> None:
        while not ended.is_set():
            os.ftruncate(file, size // 2)
            os.ftruncate(file, size)

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(shrink_and_grow)
        try:
            for _ in range(_ROUNDS):
                try:
                    call()
                except HalError as error:
                    require(error.status in (INVALID, FAILURE), str(error), "NONE, or an error of the file")
        finally:
            ended.set()
        work.result()


@rule(GROUP, _PAGE)
def shrinking_file(device: Subject) -> None:
    """A file that shrinks while it is copied is an error at worst."""
    buffer = DeviceBuffer.on(device)
    file = unsealed_file(buffer.size)
    memory = map_file(file, buffer.size)
    shrinking(file.fileno(), buffer.size, lambda: buffer.copy_from_memory(memory))
    buffer.fill(1)
    shrinking(file.fileno(), buffer.size, lambda: buffer.copy_to_memory(memory))
    buffer.require_values(1)
    device.require_alive()
