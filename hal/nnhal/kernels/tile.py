"""TILE."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.movement import TileInput


def tile(op: OperationContext) -> tuple[Array, ...]:
    """The tensor repeated along its axes."""
    return (np.tile(op.value(TileInput.INPUT), op.integers(TileInput.MULTIPLES)),)
