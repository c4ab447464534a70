"""SVDF."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import activate, from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._window import activation_of
from nnhal.operations.rnn import SvdfInput


def svdf(op: OperationContext) -> tuple[Array, ...]:
    """Each filter remembers its last features; its output is their sum weighted by time, a unit's that of its filters.

    A state's newest place is free between steps: it takes the new features, and is free (zero) again after the shift.
    """
    features = to_real(op, SvdfInput.INPUT) @ to_real(op, SvdfInput.FEATURE_WEIGHTS).T
    weights = to_real(op, SvdfInput.TIME_WEIGHTS)
    batch, filters = features.shape
    older = to_real(op, SvdfInput.STATE).reshape(batch, *weights.shape)[..., :-1]
    memory = np.concatenate([older, features[..., np.newaxis]], axis=-1)
    rank = op.integer(SvdfInput.RANK)
    output = (memory * weights).sum(axis=-1).reshape(batch, filters // rank, rank).sum(axis=-1)
    if op.has(SvdfInput.BIAS):
        output = output + to_real(op, SvdfInput.BIAS)
    shifted = np.concatenate([memory[..., 1:], np.zeros_like(memory[..., :1])], axis=-1)
    output = activate(output, activation_of(op, SvdfInput.ACTIVATION))
    return from_real(op, shifted.reshape(batch, -1), 0), from_real(op, output, 1)
