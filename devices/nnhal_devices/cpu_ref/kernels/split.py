"""SPLIT."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.split import Input
from nnhal_devices.cpu_ref.kernels._types import Array


def split(op: OperationContext) -> tuple[Array, ...]:
    """Equal parts along the axis."""
    return tuple(np.split(op.value(Input.INPUT), op.integer(Input.NUM_SPLITS), op.integer(Input.AXIS)))
