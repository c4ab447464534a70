"""CRC-32C (Castagnoli) as the driver has it: start value 0, no final inversion.

It is the remainder of a polynomial, so that it is linear: words that lie beside each other in lanes are reduced all at
once, row by row, and what is left of the lanes in the same way.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, the bits reversed."""
_LANES = (1 << 14, 1 << 11, 1 << 8, 1 << 5, 1 << 2, 1)
"""Words in a row. The more there are, the fewer steps numpy takes for many bytes."""

_Words = NDArray[np.uint32]


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of bytes, with start value 0 and without inversion at the end."""
    view = memoryview(data)
    first = len(view) % 4
    # Zeros in front change nothing.
    state = np.frombuffer(bytes(4 - first) + bytes(view[:first]), "<u4")
    body = np.frombuffer(view[first:], "<u4")
    for lanes in _LANES:
        if lanes <= len(state) + len(body):
            whole = len(body) % lanes
            state = _rows(np.concatenate([state, body[:whole]]), body[whole:], lanes)
            body = body[:0]
    return int(_times(state, *_tables(4))[0])


def _rows(head: _Words, body: _Words, lanes: int) -> _Words:
    """Reduce words to as many as there are lanes."""
    missing = -len(head) % lanes
    padded = np.concatenate([np.zeros(missing, np.uint32), head]) if missing else head
    low, high = _tables(4 * lanes)
    state = np.zeros(lanes, np.uint32)
    for part in (padded, body):
        for row in part.reshape(-1, lanes):
            state = _times(state, low, high)
            state ^= row
    return state


def _times(words: _Words, low: _Words, high: _Words) -> _Words:
    product: _Words = low[words & 0xFFFF]
    product ^= high[words >> np.uint32(16)]
    return product


@cache
def _tables(count: int) -> tuple[_Words, _Words]:
    """Return what ``count`` zero bytes make of each lower half of a remainder, and of each upper one."""
    columns = [_after_zeros(1 << bit, count) for bit in range(32)]
    return _table(columns[:16]), _table(columns[16:])


def _table(columns: list[int]) -> _Words:
    table = np.zeros(1, np.uint32)
    for column in columns:
        table = np.concatenate([table, table ^ np.uint32(column)])
    return table


def _after_zeros(remainder: int, count: int) -> int:
    """Return a remainder after so many further zero bytes."""
    square = _one_byte()
    while count:
        if count & 1:
            remainder = _apply(square, remainder)
        count >>= 1
        if count:
            square = _squared(square)
    return remainder


def _one_byte() -> tuple[int, ...]:
    """Return what a zero byte makes of each bit of a remainder."""
    columns = []
    for bit in range(32):
        value = 1 << bit
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        columns.append(value)
    return tuple(columns)


@cache
def _squared(columns: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_apply(columns, column) for column in columns)


def _apply(columns: tuple[int, ...], value: int) -> int:
    result = 0
    for column in columns:
        if value & 1:
            result ^= column
        value >>= 1
    return result
