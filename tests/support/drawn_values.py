"""Reproducible random values."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array


def random(*shape: int, seed: int = 9, low: float = -2.0, high: float = 2.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, seed: int = 9, low: int = -128, high: int = 128) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape)
