"""Whether steps of integers are off in one direction, more than rounding explains: docs/diff.md derives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from nnhal.arrays import Array

_LEAST_MEAN, _LEAST_ERRORS = 0.05, 5.0
"""In steps, and in standard errors, over a whole value."""
_LEAST_CHANNEL_MEAN, _LEAST_CHANNEL_ERRORS = 0.125, 6.0
"""In one channel: there are many of them, and each has fewer elements."""
_LEAST_MISMATCHING = 25
"""With fewer, no sum has five standard errors."""
_LEAST_AT_THE_END = 8


@dataclass(frozen=True, slots=True)
class Bias:
    """A mean that unbiased rounding does not explain."""

    where: str
    """Which elements, and what counts as up."""
    mean: float
    """In steps."""
    errors: float
    """The mean in standard errors; infinite if all elements are off."""

    def __str__(self) -> str:
        return f"bias of {self.mean:+.3g} steps {self.where}, {self.errors:.1f} standard errors, allowed 5 or .05 steps"


def bias_of(steps: Array, wanted: Array, zero: int, inputs: Mapping[str, Array]) -> Bias | None:
    """Return the bias of integers that are ``steps`` above ``wanted``; None if noise explains them.

    All arrays have the same shape, with the samples along the first axis. ``zero`` is what means 0, ``inputs`` are
    those of the layer by what they are called, less their zero points.
    """
    if not steps.any():
        return None
    found = next(_shortened(steps, wanted), None)
    if found or np.count_nonzero(steps) < _LEAST_MISMATCHING:
        return found
    return next(_biases(steps.astype(np.float64), wanted, zero, inputs), None)


def _biases(steps: Array, wanted: Array, zero: int, inputs: Mapping[str, Array]) -> Iterator[Bias]:
    levels = np.unique(wanted, return_inverse=True)[1].reshape(wanted.shape)
    signed = {"": steps, "away from zero": steps * np.sign(wanted.astype(np.int64) - zero)}
    signed |= {f"along the sign of {name}": steps * np.sign(values) for name, values in inputs.items()}
    for where, sums in signed.items():
        mean, errors = _mean(sums.reshape(1, -1), levels.reshape(1, -1))
        if abs(mean[0]) >= _LEAST_MEAN and errors[0] >= _LEAST_ERRORS:
            yield Bias(where or "up", float(mean[0]), float(errors[0]))
    for axis in sorted({1, wanted.ndim - 1} - {0}) if wanted.ndim > 1 else ():
        for where, sums in list(signed.items())[:2]:
            mean, errors = _mean(_by(sums, axis), _by(levels, axis))
            found = (np.abs(mean) >= _LEAST_CHANNEL_MEAN) & (errors >= _LEAST_CHANNEL_ERRORS)
            if found.any():
                channel = int(np.argmax(np.where(found, errors, 0.0)))
                words = f"{where or 'up'} at index {channel} of axis {axis - 1}"
                yield Bias(words, float(mean[channel]), float(errors[channel]))


def _mean(steps: Array, levels: Array) -> tuple[Array, Array]:
    """Return the mean of each row, and how many standard errors it is.

    Elements for which the reference has the same level may have the same cause, so that they err together.
    """
    groups = int(levels.max()) + 1
    rows = np.arange(len(steps))[:, None] * groups
    sums = np.bincount((rows + levels).reshape(-1), steps.reshape(-1), len(steps) * groups).reshape(len(steps), groups)
    total, spread = sums.sum(1), np.sqrt(np.square(sums).sum(1))
    errors = np.divide(np.abs(total), spread, out=np.zeros_like(total), where=spread > 0)
    return total / steps.shape[1], errors


def _by(values: Array, axis: int) -> Array:
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _shortened(steps: Array, wanted: Array) -> Iterator[Bias]:
    """Find the end of a type's range that is not reached: most of what is clamped there lies far beyond it."""
    if wanted.dtype.itemsize > 2:
        return
    for end, word in ((np.iinfo(wanted.dtype).max, "largest"), (np.iinfo(wanted.dtype).min, "least")):
        there = steps[wanted == end]
        if there.size >= _LEAST_AT_THE_END and np.count_nonzero(there) > there.size / 2:
            yield Bias(f"where the reference is {end}, the {word}", float(there.mean()), sqrt(there.size))
