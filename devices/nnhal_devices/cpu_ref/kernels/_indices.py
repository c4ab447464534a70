"""Picking slices by indices that the client gives."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal_devices.cpu_ref.kernels._types import Array


def take(op: OperationContext, values: Array, indices: Array, axis: int) -> Array:
    """The slices at indices of an axis. Raises GENERAL_FAILURE for an index outside it, such as a negative one."""
    outside = indices[(indices < 0) | (indices >= values.shape[axis])]
    if outside.size:
        op.fail(f"index {outside[0]} is outside [0, {values.shape[axis]})")
    taken: Array = np.take(values, indices, axis)
    return taken
