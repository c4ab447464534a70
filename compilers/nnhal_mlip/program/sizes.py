"""Sizes of what a program names: elements, pieces, sets of tiles."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnhal_mlip.program.program import Strided, TensorType

TYPE_BYTES: Mapping[TensorType, int] = MappingProxyType(
    {
        TensorType.INT8: 1,
        TensorType.UINT8: 1,
        TensorType.INT16: 2,
        TensorType.UINT16: 2,
        TensorType.INT32: 4,
        TensorType.UINT32: 4,
        TensorType.FP16: 2,
        TensorType.FP32: 4,
        TensorType.INT64: 8,
        TensorType.UINT64: 8,
    }
)
"""The bytes of an element."""


def bytes_of(pieces: Strided) -> int:
    """Return how many bytes pieces are together."""
    return pieces.pieces * pieces.length


def end_of(pieces: Strided) -> int:
    """Return the address after the last byte of pieces."""
    return pieces.start + (pieces.pieces - 1) * pieces.stride + pieces.length


def tiles_of(mask: int) -> tuple[int, ...]:
    return tuple(tile for tile in range(mask.bit_length()) if mask >> tile & 1)


def ceil_divide(value: int, by: int) -> int:
    return -(-value // by)
