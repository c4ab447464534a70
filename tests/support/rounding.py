"""How far two computations of the same sums may lie apart, from the number of terms and their size."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import DTypeLike

from nnhal.arrays import Array
from nnhal.types import Model, Operand, OperandLifeTime, OperationType
from nnhal.types.layout import Dimensions


def sum_tolerance(terms: int, magnitude: float, dtype: DTypeLike = np.float32) -> float:
    """Return how far two sums of the same terms may differ if they are added in different orders.

    Each of ``terms`` additions rounds by half an epsilon of a partial sum, of which none exceeds ``magnitude``; so does
    the other sum. Which order a library chooses depends on the processor.
    """
    return float(np.finfo(dtype).eps) * terms * magnitude


def tolerance_of(model: Model, expected: Array) -> float:
    """Return how far a result may lie from the expected one if the model's sums are added in another order."""
    return sum_tolerance(terms_of(model), float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0)))


def terms_of(model: Model) -> int:
    """Return how many terms a value of the outputs is made of, operation after operation, at most.

    An operation with weights adds as many products for each value as there are weights for one channel of its output.
    """
    main = model.main
    operands = main.operands
    return sum(
        max(
            (
                _terms(operation.type, operands[index].dimensions)
                for index in operation.inputs
                if _is_constant(operands[index])
            ),
            default=1,
        )
        for operation in main.operations
    )


def _is_constant(operand: Operand) -> bool:
    return operand.lifetime in (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)


def _terms(operation: int, weights: Dimensions) -> int:
    last = -1 if operation == OperationType.DEPTHWISE_CONV_2D else None  # its last axis is the channel
    return prod(weights[1:last])
