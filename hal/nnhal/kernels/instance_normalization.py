"""INSTANCE_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.normalization import InstanceNormalizationInput


def instance_normalization(op: OperationContext) -> tuple[Array, ...]:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, for each channel of each image."""
    values = to_real(op, InstanceNormalizationInput.INPUT)
    pixels = (2, 3) if op.boolean(InstanceNormalizationInput.LAYOUT) else (1, 2)
    gamma, beta, epsilon = (
        np.float32(op.real(index))
        for index in (
            InstanceNormalizationInput.GAMMA,
            InstanceNormalizationInput.BETA,
            InstanceNormalizationInput.EPSILON,
        )
    )
    centred = values - values.mean(axis=pixels, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=pixels, keepdims=True) + epsilon)
    return (from_real(op, centred / spread * gamma + beta),)
