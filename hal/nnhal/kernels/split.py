"""SPLIT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.split import Input


def split(op: OperationContext) -> tuple[Array, ...]:
    """Equal parts along the axis."""
    return tuple(np.split(op.value(Input.INPUT), op.integer(Input.NUM_SPLITS), op.integer(Input.AXIS)))
