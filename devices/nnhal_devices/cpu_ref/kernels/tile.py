"""TILE."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.tile import Input
from nnhal_devices.cpu_ref.kernels._types import Array


def tile(op: OperationContext) -> tuple[Array, ...]:
    """The tensor repeated along its axes."""
    return (np.tile(op.value(Input.INPUT), op.integers(Input.MULTIPLES)),)
