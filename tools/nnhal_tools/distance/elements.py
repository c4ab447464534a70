"""Values element by element, as conformance tests judge them."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array

_SHOWN = 3


def mismatch(expected: Array, got: Array, absolute: float, relative: float) -> str:
    """Return what is wrong with values; empty if nothing is. Both have as many elements.

    Each element may be ``absolute + relative * |expected|`` off. NaN is equal to NaN.
    """
    reference, values = (array.reshape(-1).astype(np.float64) for array in (expected, got))
    with np.errstate(invalid="ignore"):
        close = np.abs(values - reference) <= absolute + relative * np.abs(reference)
    close |= (values == reference) | (np.isnan(values) & np.isnan(reference))
    if close.all():
        return ""
    wrong = np.flatnonzero(~close)
    shown = ", ".join(f"[{i}] {values[i]:.7g} for {reference[i]:.7g}" for i in wrong[:_SHOWN])
    return f"{len(wrong)} of {len(close)} values are wrong: {shown}"


def distribution_mismatch(logits: Array, samples: Array, tolerance: float) -> str:
    """Return what is wrong with multinomial samples: each class must be as frequent as its probability, within a
    tolerance.

    ``logits`` are [batch, classes], ``samples`` [batch, n] class indexes.
    """
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    for row, (drawn, wanted) in enumerate(zip(samples, probabilities, strict=True)):
        if drawn.size and (drawn.min() < 0 or drawn.max() >= len(wanted)):
            return f"row {row} has samples outside 0 to {len(wanted) - 1}"
        frequencies = np.bincount(drawn, minlength=len(wanted)) / max(1, drawn.size)
        off = float(np.abs(frequencies - wanted).max())
        if off > tolerance:
            return f"row {row}: a class comes {off:.3f} too often or too seldom, allowed {tolerance:.3f}"
    return ""
