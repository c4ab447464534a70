"""Normalizations: values are divided by what is around them."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array, Floats
from nnhal.kernels.quantization import from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.normalization import (
    InstanceNormalizationInput,
    L2NormalizationInput,
    LocalResponseNormalizationInput,
)


def l2_normalization(op: OperationContext) -> tuple[Array, ...]:
    """Vectors of length 1; a vector of zeros does not change."""
    values = to_real(op, L2NormalizationInput.INPUT)
    lengths: Floats = np.sqrt(
        np.square(values).sum(axis=op.integer(L2NormalizationInput.AXIS, default=-1), keepdims=True)
    )
    lengths[lengths == 0] = 1
    return (from_real(op, values / lengths),)


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
