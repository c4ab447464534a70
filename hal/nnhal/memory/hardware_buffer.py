"""An emulated gralloc: graphics buffers as native handles.

A handle holds one sealed memfd and ten integers: magic, version, width, height, layers, format, usage (low and high
32 bits), stride, and the bytes reserved at the front (0). Formats and usages have AHardwareBuffer's names and numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from nnhal.memory.ashmem import cannot_shrink, create_sealed
from nnhal.types import HardwareBuffer, NativeHandle

_MAGIC = 0x4E4E4842
_VERSION = 1
_INTS = 10


class Format(IntEnum):
    """Pixel formats that the allocator makes."""

    R8G8B8A8_UNORM = 1
    R8G8B8X8_UNORM = 2
    R8G8B8_UNORM = 3
    R5G6B5_UNORM = 4
    R16G16B16A16_FLOAT = 0x16
    BLOB = 0x21


class Usage(IntFlag):
    """Who may use a buffer, and how."""

    CPU_READ_OFTEN = 3
    CPU_WRITE_OFTEN = 3 << 4
    GPU_SAMPLED_IMAGE = 1 << 8
    GPU_DATA_BUFFER = 1 << 24


_PIXEL_BYTES = {
    Format.R8G8B8A8_UNORM: 4,
    Format.R8G8B8X8_UNORM: 4,
    Format.R8G8B8_UNORM: 3,
    Format.R5G6B5_UNORM: 2,
    Format.R16G16B16A16_FLOAT: 8,
    Format.BLOB: 1,
}
_CODES = frozenset(code.value for code in Format)
_CPU = Usage.CPU_READ_OFTEN | Usage.CPU_WRITE_OFTEN


@dataclass(frozen=True, slots=True)
class BufferDescription:
    """What a handle says of its buffer. A BLOB is ``width`` bytes, of height and layers 1; stride is in pixels."""

    width: int
    height: int
    layers: int
    format: Format
    usage: Usage
    stride: int

    @property
    def byte_size(self) -> int:
        """Bytes that the buffer takes."""
        return self.stride * self.height * self.layers * _PIXEL_BYTES[self.format]


def create_blob(size: int) -> HardwareBuffer:
    """A buffer of ``size`` bytes."""
    return create_hardware_buffer(BufferDescription(size, 1, 1, Format.BLOB, _CPU | Usage.GPU_DATA_BUFFER, size))


def create_hardware_buffer(description: BufferDescription) -> HardwareBuffer:
    """A buffer of any format."""
    descriptor = create_sealed(description.byte_size, "nnhal-hardware-buffer")
    ints = (
        _MAGIC,
        _VERSION,
        description.width,
        description.height,
        description.layers,
        description.format,
        _signed(description.usage & 0xFFFFFFFF),
        _signed(description.usage >> 32),
        description.stride,
        0,
    )
    return HardwareBuffer(NativeHandle((descriptor,), ints))


def describe_buffer(buffer: HardwareBuffer) -> BufferDescription:
    """Decode and check a handle. Raises ValueError with what is wrong."""
    handle = buffer.handle
    if len(handle.descriptors) != 1 or len(handle.ints) != _INTS:
        raise ValueError(
            f"a handle of {len(handle.descriptors)} descriptors and {len(handle.ints)} integers, expected 1 and {_INTS}"
        )
    magic, version, width, height, layers, code, usage_low, usage_high, stride, reserved = handle.ints
    if (magic, version, reserved) != (_MAGIC, _VERSION, 0):
        raise ValueError(f"a handle of magic {magic:#x}, version {version}: not of nnhal's allocator")
    if code not in _CODES:
        raise ValueError(f"format {code:#x}, expected one of {[f.name for f in Format]}")
    usage = Usage((usage_low & 0xFFFFFFFF) | (usage_high & 0xFFFFFFFF) << 32)
    description = BufferDescription(width, height, layers, Format(code), usage, stride)
    if min(width, height, layers) < 1 or stride < width:
        raise ValueError(f"{width} x {height} pixels, {layers} layers, stride {stride}")
    if description.format == Format.BLOB and (height, layers, stride) != (1, 1, width):
        raise ValueError(f"a BLOB of height {height}, {layers} layers and stride {stride} for width {width}")
    _check_backing(buffer, description)
    return description


def is_blob(buffer: HardwareBuffer) -> bool:
    """Whether a buffer holds bytes and not an image. Raises ValueError where the handle is not valid."""
    return describe_buffer(buffer).format == Format.BLOB


def _check_backing(buffer: HardwareBuffer, description: BufferDescription) -> None:
    (descriptor,) = buffer.handle.descriptors
    if not cannot_shrink(descriptor):
        raise ValueError("its memory is not sealed against shrinking")
    available = os.fstat(descriptor.fileno()).st_size
    if available < description.byte_size:
        raise ValueError(f"its memory has {available} bytes, its description takes {description.byte_size}")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
