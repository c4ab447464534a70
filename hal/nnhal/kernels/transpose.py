"""TRANSPOSE."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import TransposeInput, permutation


def transpose(op: OperationContext) -> tuple[Array, ...]:
    """The axes in another order."""
    return (np.transpose(op.value(TransposeInput.INPUT), permutation(op)),)
