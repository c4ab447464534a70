"""An emulation of gralloc: graphics buffers as native handles.

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
VERSION = 1
_INTS = 10


class Format(IntEnum):
    """Pixel formats of the allocator."""

    R8G8B8A8_UNORM = 1
    R8G8B8X8_UNORM = 2
    R8G8B8_UNORM = 3
    R5G6B5_UNORM = 4
    R16G16B16A16_FLOAT = 0x16
    BLOB = 0x21


class Usage(IntFlag):
    """Permitted uses of a buffer."""

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
    """The contents of a handle. A BLOB has ``width`` bytes, height 1 and 1 layer."""

    width: int
    """In pixels; of a BLOB, in bytes."""
    height: int
    """In pixels."""
    layers: int
    """The number of images."""
    format: Format
    """How a pixel is encoded."""
    usage: Usage
    """Who may read and write it."""
    stride: int
    """The distance of two rows, in pixels."""

    @property
    def byte_size(self) -> int:
        return self.stride * self.height * self.layers * _PIXEL_BYTES[self.format]


def create_blob(size: int, is_final: bool = True) -> HardwareBuffer:
    """Create a BLOB buffer of ``size`` bytes; ``is_final`` as of ``create_sealed``."""
    blob = BufferDescription(size, 1, 1, Format.BLOB, _CPU | Usage.GPU_DATA_BUFFER, size)
    return create_hardware_buffer(blob, is_final)


def create_hardware_buffer(description: BufferDescription, is_final: bool = True) -> HardwareBuffer:
    """Create a buffer of any format; ``is_final`` as of ``create_sealed``."""
    descriptor = create_sealed(description.byte_size, "nnhal-hardware-buffer", is_final)
    ints = (
        _MAGIC,
        VERSION,
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
    """Decode and check a handle. Raises ValueError if it is invalid."""
    handle = buffer.handle
    if len(handle.descriptors) != 1 or len(handle.ints) != _INTS:
        raise ValueError(
            f"its handle has {len(handle.descriptors)} descriptors and {len(handle.ints)} integers, "
            f"expected 1 and {_INTS}"
        )
    magic, version, width, height, layers, code, usage_low, usage_high, stride, reserved = handle.ints
    if (magic, version, reserved) != (_MAGIC, VERSION, 0):
        raise ValueError(
            f"its handle has magic {magic:#x}, version {version} and {reserved} reserved bytes, "
            f"expected {_MAGIC:#x}, {VERSION} and 0"
        )
    if code not in _CODES:
        raise ValueError(f"its format is {code:#x}, expected one of {', '.join(f'{f:#x} ({f.name})' for f in Format)}")
    usage = Usage((usage_low & 0xFFFFFFFF) | (usage_high & 0xFFFFFFFF) << 32)
    description = BufferDescription(width, height, layers, Format(code), usage, stride)
    if min(width, height, layers) < 1 or stride < width:
        raise ValueError(
            f"it has {width} x {height} pixels, {layers} layers and stride {stride}, "
            "expected all above 0 and a stride of at least the width"
        )
    if description.format == Format.BLOB and (height, layers, stride) != (1, 1, width):
        raise ValueError(
            f"its BLOB has height {height}, {layers} layers and stride {stride}, expected 1, 1 and its width {width}"
        )
    _check_backing(buffer, description)
    return description


def is_blob(buffer: HardwareBuffer) -> bool:
    """Return whether a buffer holds bytes rather than an image. Raises ValueError if the handle is invalid."""
    return describe_buffer(buffer).format == Format.BLOB


def _check_backing(buffer: HardwareBuffer, description: BufferDescription) -> None:
    (descriptor,) = buffer.handle.descriptors
    if not cannot_shrink(descriptor):
        raise ValueError("its memory is not sealed against shrinking")
    available = os.fstat(descriptor.fileno()).st_size
    if available < description.byte_size:
        raise ValueError(f"its memory has {available} bytes, expected at least {description.byte_size}")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
