"""A 64-bit fingerprint of byte strings: FarmHash's Fingerprint64, which LSH projections are defined by.

Many keys of one length are hashed together. All arithmetic wraps around at 64 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnhal.kernels.array_types import Array

_Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_LONG_SEED = 81
_BLOCK = 64


def fingerprint(keys: Array) -> _Words:
    """The fingerprints of the rows of a matrix of bytes."""
    length = keys.shape[1]
    if length <= 16:
        return _up_to_16(keys, length)
    if length <= 32:
        return _up_to_32(keys, length)
    if length <= _BLOCK:
        return _up_to_64(keys, length)
    return _longer(keys, length)


def _word(number: int) -> np.uint64:
    return np.uint64(number & _MASK)


def _multiplier(length: int) -> np.uint64:
    return _word(_K2 + 2 * length)


def _fetch(keys: Array, at: int, size: int = 8) -> _Words:
    """The little-endian numbers of ``size`` bytes at an offset; from the end if it is negative."""
    start = at % keys.shape[1]
    return np.ascontiguousarray(keys[:, start : start + size]).view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotate(words: _Words, by: int) -> _Words:
    return (words >> np.uint64(by)) | (words << np.uint64(64 - by))


def _fold(words: _Words) -> _Words:
    return words ^ (words >> np.uint64(47))


def _pair(first: _Words, second: _Words, multiplier: np.uint64 | _Words) -> _Words:
    mixed = _fold((first ^ second) * multiplier)
    return _fold((second ^ mixed) * multiplier) * multiplier


def _up_to_16(keys: Array, length: int) -> _Words:
    multiplier = _multiplier(length)
    if length >= 8:
        first, last = _fetch(keys, 0) + _word(_K2), _fetch(keys, -8)
        return _pair(
            _rotate(last, 37) * multiplier + first,
            (_rotate(first, 25) + last) * multiplier,
            multiplier,
        )
    if length >= 4:
        return _pair((_fetch(keys, 0, 4) << np.uint64(3)) + _word(length), _fetch(keys, -4, 4), multiplier)
    if length == 0:
        return np.full(len(keys), _K2, np.uint64)
    first, middle, last = (keys[:, at].astype(np.uint64) for at in (0, length // 2, length - 1))
    low = first + (middle << np.uint64(8))
    high = (last << np.uint64(2)) + _word(length)
    return _fold(low * _word(_K2) ^ high * _word(_K0)) * _word(_K2)


def _halves(keys: Array, length: int) -> tuple[_Words, _Words, _Words]:
    """The start of both medium lengths, from the first and the last 16 bytes: two sums and the first word."""
    multiplier = _multiplier(length)
    first = _fetch(keys, 0) * _word(_K1 if length <= 32 else _K2)
    second, third, fourth = _fetch(keys, 8), _fetch(keys, -8) * multiplier, _fetch(keys, -16) * _word(_K2)
    return (
        _rotate(first + second, 43) + _rotate(third, 30) + fourth,
        first + _rotate(second + _word(_K2), 18) + third,
        first,
    )


def _up_to_32(keys: Array, length: int) -> _Words:
    low, high, _ = _halves(keys, length)
    return _pair(low, high, _multiplier(length))


def _up_to_64(keys: Array, length: int) -> _Words:
    multiplier = _multiplier(length)
    low, high, first = _halves(keys, length)
    high = _pair(low, high, multiplier)
    fifth, sixth = _fetch(keys, 16) * multiplier, _fetch(keys, 24)
    seventh = (low + _fetch(keys, -32)) * multiplier
    eighth = (high + _fetch(keys, -24)) * multiplier
    return _pair(
        _rotate(fifth + sixth, 43) + _rotate(seventh, 30) + eighth,
        fifth + _rotate(sixth + first, 18) + seventh,
        multiplier,
    )


def _absorb(keys: Array, at: int, first: _Words, second: _Words) -> tuple[_Words, _Words]:
    """Absorb 32 bytes into a pair of words."""
    words = [_fetch(keys, at + offset) for offset in (0, 8, 16, 24)]
    first = first + words[0]
    second = _rotate(second + first + words[3], 21)
    total = first + words[1] + words[2]
    return total + words[3], second + _rotate(total, 44) + first


def _longer(keys: Array, length: int) -> _Words:
    """Hash in blocks of 64 bytes; the last block ends with the key and may overlap the one before it."""
    zeros = np.zeros(len(keys), np.uint64)
    y = zeros + _word(_LONG_SEED * _K1 + 113)
    z = _fold(y * _word(_K2) + np.uint64(113)) * _word(_K2)
    x = _fetch(keys, 0) + _word(_LONG_SEED * _K2)
    state = (x, y, z, (zeros, zeros), (zeros, zeros))
    tail = (length - 1) % _BLOCK
    for at in range(0, length - 1 - tail, _BLOCK):
        state = _block(keys, at, state, _word(_K1), 1)
    x, y, z, v, w = state
    multiplier = _word(_K1) + ((z & np.uint64(0xFF)) << np.uint64(1))
    w = (w[0] + np.uint64(tail), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _block(keys, length - _BLOCK, (x, y, z, v, w), multiplier, 9)
    return _pair(
        _pair(v[0], w[0], multiplier) + _fold(y) * _word(_K0) + z,
        _pair(v[1], w[1], multiplier) + x,
        multiplier,
    )


_State = tuple[_Words, _Words, _Words, tuple[_Words, _Words], tuple[_Words, _Words]]


def _block(keys: Array, at: int, state: _State, multiplier: np.uint64 | _Words, weight: int) -> _State:
    x, y, z, v, w = state
    factor = np.uint64(weight)
    x = _rotate(x + y + v[0] + _fetch(keys, at + 8), 37) * multiplier
    y = _rotate(y + v[1] + _fetch(keys, at + 48), 42) * multiplier
    x = x ^ (w[1] * factor)
    y = y + v[0] * factor + _fetch(keys, at + 40)
    z = _rotate(z + w[0], 33) * multiplier
    v = _absorb(keys, at, v[1] * multiplier, x + w[0])
    w = _absorb(keys, at + 32, z + w[1], y + _fetch(keys, at + 16))
    return z, y, x, v, w
