"""LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.normalization import LocalResponseNormalizationInput


def local_response_normalization(op: OperationContext) -> tuple[Array, ...]:
    """x / (bias + alpha * sum of squares around x) ** beta."""
    axis = op.integer(LocalResponseNormalizationInput.AXIS, default=-1)
    values = np.moveaxis(to_real(op, LocalResponseNormalizationInput.INPUT), axis, -1)
    bias, alpha, beta = (
        np.float32(op.real(index))
        for index in (
            LocalResponseNormalizationInput.BIAS,
            LocalResponseNormalizationInput.ALPHA,
            LocalResponseNormalizationInput.BETA,
        )
    )
    squares, length = np.square(values), values.shape[-1]
    sums = squares.copy()
    for distance in range(1, min(op.integer(LocalResponseNormalizationInput.RADIUS), length - 1) + 1):
        sums[..., distance:] += squares[..., :-distance]
        sums[..., :-distance] += squares[..., distance:]
    return (from_real(op, np.moveaxis(values / (bias + alpha * sums) ** beta, -1, axis)),)
