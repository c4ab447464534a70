"""Code that the convolutions and FULLY_CONNECTED share: operands that can be multiplied, and the finishing of sums.

Quantised sums are exact: they are taken in float64, which holds products of 8-bit values and their sums without
rounding and for which matrix products are fast, and are requantised in fixed point.
"""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.quantization import activate, from_real, requantize, to_real
from nnhal.operations import OperationContext, channel_quant
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.operand_types import Q8C, QUANT8
from nnhal.types import FusedActivation


def factors(op: OperationContext) -> tuple[Array, Array]:
    """The input and the filter: reals, or quantised values without their zero points."""
    if op.main_type() not in QUANT8:
        return to_real(op, INPUT), to_real(op, FILTER)
    values, filters = (op.value(i).astype(np.float64) - op.inputs[i].zero_point for i in (INPUT, FILTER))
    return values, filters


def finish(op: OperationContext, sums: Array, activation: FusedActivation) -> Array:
    """Sums of products, channels last, as the operation's output: with bias, activation and quantisation."""
    if op.main_type() not in QUANT8:
        return from_real(op, activate(sums + to_real(op, BIAS), activation))
    accumulators = (sums + op.value(BIAS)).astype(np.int64)
    scale, output, filters = op.inputs[INPUT].scale, op.outputs[0], op.inputs[FILTER]
    scales = channel_quant(filters).scales if filters.type == Q8C else (filters.scale,)
    return requantize(accumulators, np.array(scales) * scale / output.scale, output, activation)
