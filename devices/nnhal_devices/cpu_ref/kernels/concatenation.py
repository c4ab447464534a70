"""CONCATENATION."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.concatenation import axis_input
from nnhal_devices.cpu_ref.kernels._quantization import from_real, to_real
from nnhal_devices.cpu_ref.kernels._types import Array


def concatenation(op: OperationContext) -> tuple[Array, ...]:
    """The tensors one after the other; those that are quantised in another way are requantised."""
    axis = axis_input(op)
    return (np.concatenate([_as_output(op, index) for index in range(axis)], op.integer(axis)),)


def _as_output(op: OperationContext, index: int) -> Array:
    operand, output = op.inputs[index], op.outputs[0]
    if (operand.scale, operand.zero_point) == (output.scale, output.zero_point):
        return op.value(index)
    return from_real(op, to_real(op, index))
