"""MAXIMUM and MINIMUM."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import as_output
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import PairwiseInput


def maximum(op: OperationContext) -> tuple[Array, ...]:
    """The larger of two; requantising keeps the order."""
    return (np.maximum(as_output(op, PairwiseInput.FIRST), as_output(op, PairwiseInput.SECOND)),)


def minimum(op: OperationContext) -> tuple[Array, ...]:
    """The smaller of two."""
    return (np.minimum(as_output(op, PairwiseInput.FIRST), as_output(op, PairwiseInput.SECOND)),)
