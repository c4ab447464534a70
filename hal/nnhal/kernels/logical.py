"""LOGICAL_AND and LOGICAL_OR."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import PairwiseInput


def logical_and(op: OperationContext) -> tuple[Array, ...]:
    """Whether both are true."""
    return (np.logical_and(op.value(PairwiseInput.FIRST), op.value(PairwiseInput.SECOND)).astype(np.uint8),)


def logical_or(op: OperationContext) -> tuple[Array, ...]:
    """Whether at least one is true."""
    return (np.logical_or(op.value(PairwiseInput.FIRST), op.value(PairwiseInput.SECOND)).astype(np.uint8),)
