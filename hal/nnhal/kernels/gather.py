"""GATHER."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.lookup import GatherInput


def gather(op: OperationContext) -> tuple[Array, ...]:
    """The slices at the indices."""
    return (np.take(op.value(GatherInput.INPUT), op.value(GatherInput.INDICES), op.integer(GatherInput.AXIS)),)
