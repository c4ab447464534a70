"""L2_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array, Floats
from nnhal.operations import OperationContext
from nnhal.operations.normalization import L2NormalizationInput


def l2_normalization(op: OperationContext) -> tuple[Array, ...]:
    """Vectors of length 1; a vector of zeros stays as it is."""
    values = to_real(op, L2NormalizationInput.INPUT)
    lengths: Floats = np.sqrt(
        np.square(values).sum(axis=op.integer(L2NormalizationInput.AXIS, default=-1), keepdims=True)
    )
    lengths[lengths == 0] = 1
    return (from_real(op, values / lengths),)
