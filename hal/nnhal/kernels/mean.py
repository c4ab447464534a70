"""MEAN."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.kernels._quantization import clamp, divide_half_away, from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._types import QUANT8
from nnhal.operations.reduction import MeanInput, axes_of_mean, prepare_mean


def mean(op: OperationContext) -> tuple[Array, ...]:
    """Sums over the axes, divided by the number of elements. Input and output are quantised alike."""
    axes, (dimensions,) = axes_of_mean(op), prepare_mean(op)
    if op.main_type() not in QUANT8:
        return (from_real(op, to_real(op, MeanInput.INPUT).mean(axis=axes)).reshape(dimensions),)
    values = op.value(MeanInput.INPUT)
    sums = values.sum(axis=axes, dtype=np.int64)
    averages = divide_half_away(sums, prod(values.shape[axis] for axis in axes))
    return (clamp(averages, op.outputs[0]).reshape(dimensions),)
