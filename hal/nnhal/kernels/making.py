"""Tensors from nothing but parameters, and from chance."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.quantization import to_real
from nnhal.operations import OperationContext
from nnhal.operations.making import FillInput, RandomMultinomialInput


def fill(op: OperationContext) -> tuple[Array, ...]:
    value = op.value(FillInput.VALUE)
    return (np.full(op.integers(FillInput.DIMENSIONS), value, value.dtype),)


def random_multinomial(op: OperationContext) -> tuple[Array, ...]:
    """Draw by inverting the cumulative distribution. Equal seeds give equal draws, unless both are 0."""
    logits = to_real(op, RandomMultinomialInput.LOGITS).astype(np.float64)
    seeds = op.integers(RandomMultinomialInput.SEEDS)
    generator = np.random.default_rng([seed % 2**32 for seed in seeds] if any(seeds) else None)
    weights = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    draws = generator.random((len(logits), op.integer(RandomMultinomialInput.SAMPLES))) * weights[:, -1:]
    classes = np.empty(draws.shape, np.int32)
    for row, (cumulated, drawn) in enumerate(zip(weights, draws, strict=True)):
        classes[row] = np.searchsorted(cumulated[:-1], drawn, side="right")
    return (classes,)
