"""Bias of integer steps in one direction, beyond the noise of rounding.

Let *s* be the signed error of an element in steps. If two sides round the same real numbers to the nearest, and differ
only in the precision of their sums, an element that differs is as likely above as below. Then the sum of *s* is zero
but for noise. Elements with the same value in the reference may have the same cause, such as a constant channel, and
err together: they are one group. With S_g the sum of *s* in group g, the variance of the whole sum is at most the sum
of S_g squared, and

    errors = |sum of S_g| / sqrt(sum of S_g squared)

is the mean in its standard errors. It is at most the square root of the number of groups. One large group, such as the
end of the range, would hide the others, so it is also computed with the sign of each S_g in its place, and the larger
of both counts. A value has a bias with 5 standard errors and a mean of 0.05 steps, or with 2.8 and 0.75; one channel
with 6 and 0.125, since there are many. Rounding down has a mean of -0.5.

The mean of *s* shows rounding up or down and zero points; that of *s* away from zero rounding towards zero and scales;
that of *s* by the sign of an input the zero point of the other factor of a product. A value that misses the end of the
type's range saturates too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from nnhal.arrays import Array

_LEAST_MEAN, _LEAST_ERRORS = 0.05, 5.0
"""In steps, and in standard errors, over a whole value."""
_LEAST_LARGE_MEAN, _LEAST_LARGE_ERRORS = 0.75, 2.8
"""If nearly all elements are off by one, few of them tell: noise is seldom."""
_LEAST_CHANNEL_MEAN, _LEAST_CHANNEL_ERRORS = 0.125, 6.0
"""In one channel: there are many of them, and each has fewer elements."""
_LEAST_MISMATCHING = 8
"""With fewer, no sum has so many standard errors."""
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
    axes = sorted({1, wanted.ndim - 1} - {0}) if wanted.ndim > 1 else []
    few = [axis for axis in axes if 4 * _by(steps != 0, axis).any(1).sum() <= wanted.shape[axis]]
    for axis in few:  # few indexes have all that is off: they are to be named, and not the whole value
        yield from _in_channels(signed, levels, axis)
    for where, sums in signed.items():
        mean, errors = _mean(sums.reshape(1, -1), levels.reshape(1, -1))
        is_large = abs(mean[0]) >= _LEAST_LARGE_MEAN and errors[0] >= _LEAST_LARGE_ERRORS
        if is_large or (abs(mean[0]) >= _LEAST_MEAN and errors[0] >= _LEAST_ERRORS):
            yield Bias(where or "up", float(mean[0]), float(errors[0]))
    for axis in axes:
        if axis not in few:
            yield from _in_channels(signed, levels, axis)


def _in_channels(signed: Mapping[str, Array], levels: Array, axis: int) -> Iterator[Bias]:
    for where, sums in list(signed.items())[:2]:
        mean, errors = _mean(_by(sums, axis), _by(levels, axis))
        found = (np.abs(mean) >= _LEAST_CHANNEL_MEAN) & (errors >= _LEAST_CHANNEL_ERRORS)
        if found.any():
            channel = int(np.argmax(np.where(found, errors, 0.0)))
            words = f"{where or 'up'} at index {channel} of axis {axis - 1}"
            yield Bias(words, float(mean[channel]), float(errors[channel]))


def _mean(steps: Array, levels: Array) -> tuple[Array, Array]:
    """Return the mean of each row, and how many standard errors it is.

    Elements for which the reference has the same level may have the same cause, so that they err together. A level that
    many have, such as the end of the range, must not hide the others: so each level also counts once, with the sign of
    its sum.
    """
    groups = int(levels.max()) + 1
    rows = np.arange(len(steps))[:, None] * groups
    sums = np.bincount((rows + levels).reshape(-1), steps.reshape(-1), len(steps) * groups).reshape(len(steps), groups)
    return sums.sum(1) / steps.shape[1], np.maximum(_errors(sums), _errors(np.sign(sums)))


def _errors(sums: Array) -> Array:
    """Return how many standard errors the sum of each row is, if the signs of its elements are drawn."""
    total, spread = np.abs(sums.sum(1)), np.sqrt(np.square(sums).sum(1))
    return np.asarray(np.divide(total, spread, out=np.zeros_like(total), where=spread > 0))


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
