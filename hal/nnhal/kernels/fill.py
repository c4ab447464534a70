"""FILL."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.making import FillInput


def fill(op: OperationContext) -> tuple[Array, ...]:
    """All elements equal."""
    value = op.value(FillInput.VALUE)
    return (np.full(op.integers(FillInput.DIMENSIONS), value, value.dtype),)
