"""SUM and COPY: element by element. Floats are added in float32, integers by their factors in float64."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import TileTask
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands


def total(task: TileTask, operands: TaskOperands) -> Array:
    """Return the sum of the inputs, each by its factor."""
    factors = task.input_factors or (1.0,) * len(operands.inputs)
    parts = [_by(values, factor) for values, factor in zip(operands.inputs, factors, strict=True)]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


def _by(values: Array, factor: float) -> Array:
    wide: Array = values.astype(np.float64 if values.dtype.kind in "iu" else np.float32)
    return wide if factor == 1.0 else wide * factor
