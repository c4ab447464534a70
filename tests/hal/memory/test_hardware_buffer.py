from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from nnhal.descriptor import Descriptor
from nnhal.memory import BufferDescription, create_ashmem, create_blob, create_hardware_buffer, describe_buffer
from nnhal.memory.hardware_buffer import Format, Usage, is_blob
from nnhal.types import HardwareBuffer, NativeHandle

MAGIC, VERSION, WIDTH, HEIGHT, LAYERS, FORMAT, USAGE_LOW, USAGE_HIGH, STRIDE, RESERVED = range(10)


def with_int(buffer: HardwareBuffer, position: int, value: int) -> HardwareBuffer:
    ints = list(buffer.handle.ints)
    ints[position] = value
    return HardwareBuffer(replace(buffer.handle, ints=tuple(ints)))


def backed_by(buffer: HardwareBuffer, *descriptors: Descriptor) -> HardwareBuffer:
    return HardwareBuffer(replace(buffer.handle, descriptors=descriptors))


def test_a_blob_is_as_many_bytes_as_it_is_wide() -> None:
    buffer = create_blob(1000)
    description = describe_buffer(buffer)
    assert (description.width, description.height, description.layers, description.stride) == (1000, 1, 1, 1000)
    assert description.byte_size == 1000
    assert is_blob(buffer)
    assert os.fstat(buffer.handle.descriptors[0].fileno()).st_size == 1000


@pytest.mark.parametrize(
    ("format_", "pixel"),
    [
        (Format.R8G8B8A8_UNORM, 4),
        (Format.R8G8B8X8_UNORM, 4),
        (Format.R8G8B8_UNORM, 3),
        (Format.R5G6B5_UNORM, 2),
        (Format.R16G16B16A16_FLOAT, 8),
    ],
)
def test_an_image_is_decoded_as_it_was_described(format_: Format, pixel: int) -> None:
    description = BufferDescription(10, 7, 2, format_, Usage.GPU_SAMPLED_IMAGE | Usage.CPU_READ_OFTEN, 16)
    buffer = create_hardware_buffer(description)
    assert describe_buffer(buffer) == description
    assert description.byte_size == 16 * 7 * 2 * pixel
    assert not is_blob(buffer)


@pytest.mark.parametrize("bits", [1 << 31, 1 << 63, (1 << 64) - 1, 0])
def test_all_64_bits_of_usage_survive_the_handle(bits: int) -> None:
    buffer = create_hardware_buffer(BufferDescription(4, 1, 1, Format.BLOB, Usage(bits), 4))
    assert all(-(1 << 31) <= value < 1 << 31 for value in buffer.handle.ints)
    assert describe_buffer(buffer).usage == bits


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (MAGIC, 0, "magic 0x0"),
        (VERSION, 2, "version 2"),
        (RESERVED, 1, "version 1 and 1 reserved bytes, expected 0x4e4e4842, 1 and 0"),
        (FORMAT, 0x7F, "format is 0x7f"),
        (FORMAT, -1, "format is -0x1"),
        (WIDTH, 0, "0 x 1 pixels"),
        (WIDTH, -5, "-5 x 1 pixels"),
        (HEIGHT, -1, "64 x -1 pixels"),
        (LAYERS, 0, "0 layers"),
        (STRIDE, 63, "stride 63"),
        (STRIDE, 128, "its BLOB has height 1, 1 layers and stride 128, expected 1, 1 and its width 64"),
        (HEIGHT, 2, "its BLOB has height 2"),
        (LAYERS, 2, "its BLOB has height 1, 2 layers"),
    ],
)
def test_an_invalid_handle_is_refused(position: int, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        describe_buffer(with_int(create_blob(64), position, value))


@pytest.mark.parametrize(
    ("reshape", "message"),
    [
        (lambda h: NativeHandle(h.descriptors, h.ints[:-1]), "1 descriptors and 9 integers"),
        (lambda h: NativeHandle(h.descriptors, (*h.ints, 0)), "1 descriptors and 11 integers"),
        (lambda h: NativeHandle((), h.ints), "0 descriptors and 10 integers"),
        (lambda h: NativeHandle(h.descriptors * 2, h.ints), "2 descriptors and 10 integers"),
        (lambda h: NativeHandle(h.descriptors[1:], h.ints[10:]), "0 descriptors and 0 integers"),
    ],
)
def test_a_handle_of_another_form_is_refused(reshape: Callable[[NativeHandle], NativeHandle], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        describe_buffer(HardwareBuffer(reshape(create_blob(64).handle)))


def test_memory_that_its_owner_could_truncate_is_refused() -> None:
    unsealed = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(unsealed.fileno(), 64)
    with pytest.raises(ValueError, match="not sealed"):
        describe_buffer(backed_by(create_blob(64), unsealed))


def test_a_description_that_exceeds_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="its memory has 63 bytes, expected at least 64"):
        describe_buffer(backed_by(create_blob(64), create_ashmem(63).descriptor))


def test_dimensions_whose_product_would_overflow_64_bits_are_refused() -> None:
    largest = (1 << 31) - 1
    buffer = create_hardware_buffer(BufferDescription(1, 1, 1, Format.R8G8B8A8_UNORM, Usage(0), 1))
    for position in (WIDTH, HEIGHT, LAYERS, STRIDE):
        buffer = with_int(buffer, position, largest)
    with pytest.raises(ValueError, match=f"expected at least {largest**3 * 4}"):
        describe_buffer(buffer)
