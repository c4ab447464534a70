"""How far two computations of the same sums may lie apart, from the number of terms and their size."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import DTypeLike

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandLifeTime
from nnhal.types.layout import Dimensions

_CONSTANT = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)


def sum_tolerance(terms: int, magnitude: float, dtype: DTypeLike = np.float32) -> float:
    """Return how far two sums of the same terms may differ if they are added in different orders.

    Each of ``terms`` additions rounds by half an epsilon of a partial sum, of which none exceeds ``magnitude``; so does
    the other sum. Which order a library chooses depends on the processor.
    """
    return float(np.finfo(dtype).eps) * terms * magnitude


def terms_of(model: ResolvedModel) -> int:
    """Return how many products a value of the model's outputs is made of in a row, operation after operation.

    An operation with weights adds as many for each value as its weights have for one of their first axis.
    """
    main = model.model.main

    def terms(dimensions: Dimensions) -> int:
        return prod(dimensions[1:]) if len(dimensions) > 1 else 1

    return sum(
        max(
            (
                terms(main.operands[index].dimensions)
                for index in operation.inputs
                if main.operands[index].lifetime in _CONSTANT
            ),
            default=1,
        )
        for operation in main.operations
    )
