"""RANK."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.shape import RankInput


def rank(op: OperationContext) -> tuple[Array, ...]:
    """The number of axes."""
    return (np.array(len(op.dimensions(RankInput.INPUT)), np.int32),)
