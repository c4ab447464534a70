"""Figures of the distance of values from others: figures that add up over samples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf, log10, sqrt
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.types import Operand, OperandType

_AFFINE = frozenset(
    {
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        OperandType.TENSOR_QUANT8_SYMM,
        OperandType.TENSOR_QUANT16_ASYMM,
        OperandType.TENSOR_QUANT16_SYMM,
    }
)
_FARTHEST = 2.0**63 - 1024
"""The largest float64 that int64 can hold."""
_BITS: dict[int, np.dtype[Any]] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


@dataclass(frozen=True, slots=True)
class Figures:
    """The distance of values from those of a reference, over all samples. All but the steps are in real numbers."""

    elements: int
    mismatching: int
    """Elements that are not equal."""
    unmatched: int
    """Elements that are a finite number on one side only, or infinities that differ. No other figure counts them."""
    largest: float
    mean: float
    peak: float
    """The largest magnitude in the reference."""
    signal: float
    """The sum of the squares of the reference."""
    noise: float
    """The sum of the squares of the distances."""
    cosine: float | None
    """Cosine of the angle between the two as vectors; None if either has no length."""
    largest_step: int
    """The largest distance in steps: of quantised types and integers in their own numbers, of floats in ULPs."""
    steps: dict[int, int]
    """Of quantised types, how many elements are so many steps above the reference; empty for other types."""
    other_zeros: int = 0
    """Zeros of floats with the other sign: equal, unless signs of zeros are asked for."""

    @property
    def sqnr(self) -> float | None:
        """Signal to noise in decibels; None if there is no noise, or no signal, or float64 cannot hold them."""
        ratio = self.signal / self.noise if self.noise else 0.0
        return 10 * log10(ratio) if 0 < ratio < inf else None

    @property
    def is_equal(self) -> bool:
        """True if every element is equal."""
        return not self.mismatching


class Distance:
    """Adds up the distance of a value over samples."""

    def __init__(self, operand: Operand | None = None, signed_zeros: bool = False) -> None:
        """``operand`` says what the numbers mean; without it they are real numbers.

        With ``signed_zeros`` -0.0 and 0.0 are not equal.
        """
        self._signed_zeros, self._other_zeros = signed_zeros, 0
        self._quantised = operand is not None and operand.type in _AFFINE and operand.scale > 0
        self._scale = operand.scale if operand is not None and self._quantised else 1.0
        self._zero = operand.zero_point if operand is not None and self._quantised else 0
        self._elements = self._mismatching = self._unmatched = self._counted = self._largest_step = 0
        self._largest = self._peak = self._sum = self._noise = self._signal = self._product = self._power = 0.0
        self._steps: Counter[int] = Counter()

    def add(self, got: Array, wanted: Array) -> None:
        """Count a sample. Both have the same shape and the same element type, or can be subtracted as float64."""
        one, other = _finite(got), _finite(wanted.reshape(got.shape))
        equal = (got.reshape(-1) == wanted.reshape(-1)) | (_nan(got) & _nan(wanted))
        zeros = int(np.count_nonzero(equal & _other_zeros(got, wanted)))
        both = one & other
        self._elements += got.size
        self._other_zeros += zeros
        self._mismatching += int(np.count_nonzero(~equal)) + zeros * self._signed_zeros
        self._unmatched += int(np.count_nonzero(~both & ~equal))
        values, expected = got.reshape(-1)[both], wanted.reshape(-1)[both]
        with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest float64
            self._add_reals(self._reals(values), self._reals(expected))
        self._add_steps(values, expected)

    def _add_reals(self, got: Array, wanted: Array) -> None:
        distance = np.abs(got - wanted)
        self._counted += distance.size
        self._sum += float(distance.sum())
        self._noise += float(np.square(distance).sum())
        self._signal += float(np.square(wanted).sum())
        self._power += float(np.square(got).sum())
        self._product += float((got * wanted).sum())
        self._largest = max(self._largest, float(distance.max(initial=0.0)))
        self._peak = max(self._peak, float(np.abs(wanted).max(initial=0.0)))

    def _add_steps(self, got: Array, wanted: Array) -> None:
        steps = steps_between(got, wanted)
        self._largest_step = max(self._largest_step, int(np.abs(steps).max(initial=0)))
        if self._quantised:
            found, counts = np.unique(steps, return_counts=True)
            self._steps.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))

    def _reals(self, values: Array) -> Array:
        reals = values.astype(np.float64)
        return (reals - self._zero) * self._scale if self._quantised else reals

    @property
    def figures(self) -> Figures:
        """Return what has been counted."""
        lengths = sqrt(self._signal) * sqrt(self._power)
        return Figures(
            self._elements,
            self._mismatching,
            self._unmatched,
            self._largest,
            self._sum / max(self._counted, 1),
            self._peak,
            self._signal,
            self._noise,
            self._product / lengths if lengths else None,
            self._largest_step,
            dict(sorted(self._steps.items())),
            self._other_zeros,
        )


def steps_between(got: Array, wanted: Array) -> Array:
    """Return how many numbers of their type ``got`` is above ``wanted``, as int64; of floats in ULPs, which must be
    finite. Distances that int64 cannot hold are its largest.
    """
    if got.dtype.kind == "f" and got.dtype == wanted.dtype and got.dtype.itemsize in _BITS:
        return _difference(_ordered(got), _ordered(wanted))
    if got.dtype.kind in "biu" and wanted.dtype.kind in "biu" and np.uint64 not in (got.dtype, wanted.dtype):
        return _difference(got.astype(np.int64), wanted.astype(np.int64))
    far = np.rint(got.astype(np.float64) - wanted.astype(np.float64))
    return np.asarray(np.clip(far, -_FARTHEST, _FARTHEST).astype(np.int64))


def _difference(one: Array, other: Array) -> Array:
    exact, far = one - other, one.astype(np.float64) - other.astype(np.float64)
    most = np.iinfo(np.int64).max
    return np.asarray(np.where(np.abs(far) > _FARTHEST, np.where(far > 0, most, -most), exact))


def _ordered(floats: Array) -> Array:
    """Return the place of each float among all of its type, as int64; 0 for both zeros."""
    bits = np.ascontiguousarray(floats).view(_BITS[floats.dtype.itemsize]).astype(np.int64)
    least = -(1 << (8 * floats.dtype.itemsize - 1))
    return np.asarray(np.where(bits < 0, least - bits, bits))


def _finite(values: Array) -> Array:
    flat = values.reshape(-1)
    return np.isfinite(flat) if flat.dtype.kind in "fc" else np.ones(flat.size, np.bool_)


def _nan(values: Array) -> Array:
    flat = values.reshape(-1)
    return np.isnan(flat) if flat.dtype.kind in "fc" else np.zeros(flat.size, np.bool_)


def _other_zeros(got: Array, wanted: Array) -> Array:
    """Tell which zeros of floats have the other sign."""
    one, other = got.reshape(-1), wanted.reshape(-1)
    floats = one.dtype.kind == other.dtype.kind == "f"
    return (one == 0) & (np.signbit(one) != np.signbit(other)) if floats else np.zeros(one.size, np.bool_)
