"""CONCATENATION."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import as_output
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.joining import axis_input


def concatenation(op: OperationContext) -> tuple[Array, ...]:
    """The tensors one after the other; those with another quantisation are requantised."""
    axis = axis_input(op)
    return (np.concatenate([as_output(op, index) for index in range(axis)], op.integer(axis)),)
