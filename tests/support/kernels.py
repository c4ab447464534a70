"""Running one kernel of cpu_ref."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels import KERNELS
from nnhal.operations import DEFINITIONS
from nnhal.types import Operand, OperationType
from nnhal.types.layout import ELEMENT_TYPES, fits
from tests.support.operations import Given, context, level_of


def compute(code: OperationType, inputs: Sequence[Given], *outputs: Operand) -> tuple[Array, ...]:
    """Validate, prepare and compute an operation; check that the results have the prepared dimensions and types."""
    level_of(code, inputs, *outputs)
    op = context(code, inputs, outputs, executing=True)
    shapes = DEFINITIONS[code].prepare(op)
    with np.errstate(all="ignore"):
        results = KERNELS[code](op)
    for result, shape, operand in zip(results, shapes, outputs, strict=True):
        assert result.dtype == ELEMENT_TYPES[operand.type]
        assert fits(result.shape, shape), f"{result.shape}, prepared as {shape}"
    return results
