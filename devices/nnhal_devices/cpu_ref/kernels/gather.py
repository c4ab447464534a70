"""GATHER."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.gather import Input
from nnhal_devices.cpu_ref.kernels._types import Array


def gather(op: OperationContext) -> tuple[Array, ...]:
    """The slices at the indices."""
    return (np.take(op.value(Input.INPUT), op.value(Input.INDICES), op.integer(Input.AXIS)),)
