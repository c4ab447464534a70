"""SPLIT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.joining import SplitInput


def split(op: OperationContext) -> tuple[Array, ...]:
    """Equal parts along the axis."""
    return tuple(np.split(op.value(SplitInput.INPUT), op.integer(SplitInput.NUM_SPLITS), op.integer(SplitInput.AXIS)))
