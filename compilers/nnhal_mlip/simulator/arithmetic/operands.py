"""Operands of a task, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array


class TaskOperands(NamedTuple):
    """Operands of a task."""

    inputs: tuple[Array, ...]
    """[batch, height, width, channels]"""
    weights: Array | None
    biases: Array | None
    """One for each output channel."""
    factors: Array | None
    """One for each output channel."""


def weights_of(operands: TaskOperands) -> Array:
    if operands.weights is None:
        raise ValueError("a task without weights, expected some")
    return operands.weights


def scaled(sums: Array, operands: TaskOperands) -> Array:
    """Add the biases to sums, and multiply them by the factors: [.., channels]. Integers become float64, exactly."""
    if sums.dtype.kind == "i":
        sums = sums.astype(np.float64)
    if operands.biases is not None:
        sums = sums + operands.biases
    return sums if operands.factors is None else sums * operands.factors.astype(np.float64)
