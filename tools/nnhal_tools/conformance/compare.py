"""Comparing outputs with the expectations of a vector."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import Dimensions, describe
from nnhal_tools.conformance.vectors import Expectation

_SHOWN = 3


def mismatch(expected: Expectation, got: Array, dimensions: Dimensions) -> str:
    """Return what is wrong with one output; empty if nothing is. ``got`` is flat, ``dimensions`` are those reported."""
    if dimensions != expected.values.shape:
        return f"dimensions {describe(dimensions)}, expected {describe(expected.values.shape)}"
    if not expected.compared:
        return ""
    reference = expected.values.reshape(-1).astype(np.float64)
    values = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.abs(values - reference) <= expected.absolute + expected.relative * np.abs(reference)
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
