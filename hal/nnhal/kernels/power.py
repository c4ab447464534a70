"""POW."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import PairwiseInput


def power(op: OperationContext) -> tuple[Array, ...]:
    """The first to the power of the second."""
    return (from_real(op, np.power(to_real(op, PairwiseInput.FIRST), to_real(op, PairwiseInput.SECOND))),)
