"""Basic recurrent cells with random weights, and a reference implementation in float64."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array

BATCH, INPUT, UNITS, TIME = 2, 3, 4, 5
RELU = 1
_RNG = np.random.default_rng(4)


def values(*shape: int) -> Array:
    """Return random values that float16 represents exactly."""
    return np.round(_RNG.normal(0, 0.5, shape) * 64) / 64


def random_cell(units: int = UNITS, inputs: int = INPUT) -> list[Array]:
    """Return weights, recurrent weights, bias and state."""
    return [values(units, inputs), values(units, units), values(units), values(BATCH, units)]


def expected_sequence(cell: list[Array], sequence: Array) -> tuple[Array, Array]:
    """Return outputs [time, batch, units] with RELU as activation, and the last state."""
    weights, recurrent, bias, state = cell
    outputs = []
    for step in sequence:
        state = np.maximum(step @ weights.T + state @ recurrent.T + bias, 0)
        outputs.append(state)
    return np.array(outputs), state
