"""GATHER."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.gather import Input


def gather(op: OperationContext) -> tuple[Array, ...]:
    """The slices at the indices."""
    return (np.take(op.value(Input.INPUT), op.value(Input.INDICES), op.integer(Input.AXIS)),)
