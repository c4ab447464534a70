"""Size of weights in the form in which they lie at rest: Ethos-U's compressed weight stream.

The format is Arm's, and public: each weight is a Golomb-Rice code of its place in a palette of the most frequent values
or, behind those, of its magnitude and sign; codes of runs of zeros may stand between them. Nothing is encoded here: the
length follows from how often each value occurs.
"""

from __future__ import annotations

from enum import Enum
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array


class WeightOrder(Enum):
    """Order in which the NPU goes over the weights of a channel. What it reads beyond them, to fill its units, is
    zeros.
    """

    DEPTH_FIRST = (8, 1, 32)
    PART_KERNEL = (8, 4, 8)
    DEPTHWISE = (8, 4, 1)

    def filled(self, shape: tuple[int, ...]) -> int:
        """Return how many weights are encoded for those of [channels, elements of the kernel, depth]."""
        return prod(_up(extent, unit) for extent, unit in zip(shape, self.value, strict=True))


_ZERO = 256
"""The place of 0 in a histogram: a weight less its zero point is from -255 to 255."""
_SAMPLE = 1 << 14
"""How many weights are looked at, at most about double."""
_PALETTE = 32
"""The most values that a palette has."""
_HEADER_BITS = 40
_ALIGNMENT = 16
"""Bytes."""

_CODES = np.arange(2 * _ZERO)
_PLACES = _ZERO + np.where(_CODES % 2, -(_CODES // 2), _CODES // 2)
"""The place in a histogram of the value of each code: twice the magnitude, and 1 more for negative values."""
_NO_VALUE = 1
"""The code of -0."""
_SYMBOLS = np.arange(2 * _ZERO + _PALETTE)
_DIVISORS = np.arange(6)[:, None]
"""How many low bits of a symbol are written as they are; the others are counted."""
_COUNTED = _SYMBOLS >> _DIVISORS
_LENGTHS = np.concatenate([_COUNTED + 1, np.minimum(_COUNTED + 1, 2)]) + np.tile(_DIVISORS, (2, 1))
"""Bits of each symbol by each of the codes: those that end a count by a 0, and those that know of no count beyond 2."""
_LAST = np.concatenate([32 << _DIVISORS, 3 << _DIVISORS])[:, 0] - 1
"""The last symbol of each of the codes."""


def encoded_bytes(weights: Array, shape: tuple[int, ...], zero_point: int, order: WeightOrder) -> int:
    """Return the bytes of weights of 8 bits as one stream, within some per cent of what Arm's encoder makes.

    ``shape`` is channels of the output, elements of the kernel, and depth, in whatever order the weights are.
    """
    flat = weights.reshape(-1)
    # An odd step does not fall on the same place of each channel.
    sample = flat[:: max(1, flat.size // _SAMPLE) | 1]
    counts = np.zeros(2 * _ZERO)
    seen = np.bincount(sample.view(np.uint8), minlength=256)
    if weights.dtype == np.int8:
        seen = np.roll(seen, 128)
    first = _ZERO - zero_point - (128 if weights.dtype == np.int8 else 0)
    counts[first : first + 256] = seen * (flat.size / sample.size)
    bits = _HEADER_BITS + _stream_bits(counts, order.filled(shape) - flat.size)
    return _up(ceil(bits / 8), _ALIGNMENT)


def _stream_bits(counts: NDArray[np.float64], padding: int) -> float:
    """The bits of weights, with zeros among them or as runs between them."""
    zeros = counts[_ZERO]
    others = counts.sum() - zeros
    counts[_ZERO] = zeros + padding
    among = _bits(counts)
    if not others:
        return among
    counts[_ZERO] = 0
    divisors = 2.0 ** np.arange(4)
    # Zeros are taken to be anywhere, so runs of them have a geometric distribution; padding is in long runs.
    long = (zeros / (zeros + others)) ** divisors
    runs = padding / divisors + others * (1 + np.arange(4) + long / (1 - long))
    return min(among, _bits(counts) + float(runs.min()))


def _bits(counts: NDArray[np.float64]) -> float:
    """The bits of values by the best of all codes, with the palette that the encoder makes."""
    by_code = counts[_PLACES]
    by_code[_NO_VALUE] = 0
    used = np.flatnonzero(by_code)
    unused = min(int(used[0]), _PALETTE - 1)
    most = np.argsort(-by_code, kind="stable")[: min(_PALETTE, len(used))]
    palette, header = by_code[most], 8 * len(most)
    if len(used) == len(most):
        symbols = palette
    elif 2 * palette.sum() > by_code.sum():
        by_code[most] = 0
        symbols = np.concatenate([palette, by_code[unused:]])
    else:
        symbols, header = by_code[unused:], 0
    last = int(np.flatnonzero(symbols)[-1])
    plain = max(1, last.bit_length()) * symbols.sum()
    coded = _LENGTHS[last <= _LAST, : len(symbols)] @ symbols
    return header + float(min(plain, *coded))


def _up(value: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-value // unit) * unit
