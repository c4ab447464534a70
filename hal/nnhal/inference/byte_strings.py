"""Elements of BYTES on the wire: each is preceded by its length in four bytes, little-endian.

Strings of equal length are decoded as a table, without a Python step for each of them.
"""

from __future__ import annotations

import struct
from itertools import chain

import numpy as np

from nnhal.arrays import Array

_LENGTH = struct.Struct("<I")


def encode_byte_strings(array: Array) -> bytes:
    """Encode the elements one after another: ``str`` as UTF-8, numbers as numpy prints them."""
    items = [_as_bytes(item) for item in array.reshape(-1).tolist()]
    lengths = np.fromiter(map(len, items), "<u4", len(items)).tobytes()
    prefixes = [lengths[start : start + 4] for start in range(0, len(lengths), 4)]
    return b"".join(chain.from_iterable(zip(prefixes, items, strict=True)))


def decode_byte_strings(raw: bytes | bytearray | memoryview, count: int) -> Array:
    """Decode ``count`` elements. Raises ValueError if there are more or fewer, or the last one is cut off."""
    if count * _LENGTH.size > len(raw):
        raise ValueError(
            f"got {len(raw)} bytes, expected at least {count * _LENGTH.size} for {count} elements of BYTES"
        )
    items = _table(raw, count)
    if items is None:
        items = _one_by_one(raw, count)
    array = np.empty(count, object)
    array[:] = items
    return array


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _table(raw: bytes | bytearray | memoryview, count: int) -> list[bytes] | None:
    """Return the elements if all have the length of the first one and that is not 0, else None."""
    if not count:
        return None
    (length,) = _LENGTH.unpack_from(raw)
    if not length or count * (_LENGTH.size + length) != len(raw):
        return None
    rows = np.frombuffer(raw, np.dtype([("length", "<u4"), ("item", f"V{length}")]), count)
    if (rows["length"] != length).any():
        return None
    items: list[bytes] = rows["item"].tolist()
    return items


def _one_by_one(raw: bytes | bytearray | memoryview, count: int) -> list[bytes]:
    items, position, size = [], 0, len(raw)
    for index in range(count):
        start = position + _LENGTH.size
        if start > size:
            raise ValueError(f"got {index} elements of BYTES in {size} bytes, expected {count}")
        (length,) = _LENGTH.unpack_from(raw, position)
        position = start + length
        if position > size:
            raise ValueError(f"element {index} of BYTES has {length} bytes, but only {size - start} are left")
        items.append(bytes(raw[start:position]))
    if position != size:
        raise ValueError(f"got {size} bytes, expected {position} for {count} elements of BYTES")
    return items
