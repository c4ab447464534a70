"""CONCATENATION."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.concatenation import axis_input
from nnhal_devices.cpu_ref.kernels._quantization import as_output
from nnhal_devices.cpu_ref.kernels._types import Array


def concatenation(op: OperationContext) -> tuple[Array, ...]:
    """The tensors one after the other; those with another quantisation are requantised."""
    axis = axis_input(op)
    return (np.concatenate([as_output(op, index) for index in range(axis)], op.integer(axis)),)
