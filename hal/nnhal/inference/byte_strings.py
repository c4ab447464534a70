"""Elements of BYTES on the wire: each is preceded by its length in four bytes, little-endian.

Strings of equal length are decoded as a table, without a Python step for each of them.
"""

from __future__ import annotations

import struct
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array

_LENGTH = struct.Struct("<I")
_PIECE = 1 << 12
"""The elements that are converted at a time: other threads run between two pieces."""


def encode_byte_strings(array: Array) -> bytes:
    """Encode the elements one after another: ``str`` as UTF-8, numbers as numpy prints them."""
    flat = array.reshape(-1)
    return b"".join([_encoded(flat[start : start + _PIECE].tolist()) for start in range(0, flat.size, _PIECE)])


def decode_byte_strings(raw: bytes | bytearray | memoryview, count: int) -> Array:
    """Decode ``count`` elements. Raises ValueError if there are more or fewer, or the last one is cut off."""
    if count * _LENGTH.size > len(raw):
        raise ValueError(
            f"got {len(raw)} bytes, expected at least {count * _LENGTH.size} for {count} elements of BYTES"
        )
    array = np.empty(count, object)
    table = _table(raw, count)
    if table is None:
        _fill_one_by_one(array, raw)
    else:
        for start in range(0, count, _PIECE):
            array[start : start + _PIECE] = table[start : start + _PIECE].tolist()
    return array


def _encoded(elements: list[object]) -> bytes:
    items = [_as_bytes(item) for item in elements]
    lengths = np.fromiter(map(len, items), "<u4", len(items)).tobytes()
    prefixes = [lengths[start : start + 4] for start in range(0, len(lengths), 4)]
    return b"".join(chain.from_iterable(zip(prefixes, items, strict=True)))


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _table(raw: bytes | bytearray | memoryview, count: int) -> NDArray[np.void] | None:
    """Return the elements if all have the length of the first one and that is not 0, else None."""
    if not count:
        return None
    (length,) = _LENGTH.unpack_from(raw)
    if not length or count * (_LENGTH.size + length) != len(raw):
        return None
    rows = np.frombuffer(raw, np.dtype([("length", "<u4"), ("item", f"V{length}")]), count)
    if (rows["length"] != length).any():
        return None
    items: NDArray[np.void] = rows["item"]
    return items


def _fill_one_by_one(array: Array, raw: bytes | bytearray | memoryview) -> None:
    count = len(array)
    position, size = 0, len(raw)
    for index in range(count):
        start = position + _LENGTH.size
        if start > size:
            raise ValueError(f"got {index} elements of BYTES in {size} bytes, expected {count}")
        (length,) = _LENGTH.unpack_from(raw, position)
        position = start + length
        if position > size:
            raise ValueError(f"element {index} of BYTES has {length} bytes, but only {size - start} are left")
        array[index] = bytes(raw[start:position])
    if position != size:
        raise ValueError(f"got {size} bytes, expected {position} for {count} elements of BYTES")
