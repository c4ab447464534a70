"""ADD, SUB, MUL and DIV."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations._window import activation_of
from nnhal.operations.binary import Input
from nnhal.types import OperandType
from nnhal_devices.cpu_ref.kernels._quantization import activate, from_real, quantized_range, to_real
from nnhal_devices.cpu_ref.kernels._types import Array, Floats


def add(op: OperationContext) -> tuple[Array, ...]:
    """a + b."""
    return _arithmetic(op, np.add)


def sub(op: OperationContext) -> tuple[Array, ...]:
    """a - b."""
    return _arithmetic(op, np.subtract)


def mul(op: OperationContext) -> tuple[Array, ...]:
    """a * b."""
    return _arithmetic(op, np.multiply)


def div(op: OperationContext) -> tuple[Array, ...]:
    """a / b; integers round down."""
    if op.main_type() == OperandType.TENSOR_INT32:
        return (np.floor_divide(op.value(Input.FIRST), op.value(Input.SECOND)),)
    return _arithmetic(op, np.divide)


def _arithmetic(op: OperationContext, function: Callable[[Array, Array], Floats]) -> tuple[Array, ...]:
    if op.main_type() == OperandType.TENSOR_INT32:
        return (function(op.value(Input.FIRST), op.value(Input.SECOND)),)
    activation = activation_of(op, Input.ACTIVATION)
    result = function(to_real(op, Input.FIRST), to_real(op, Input.SECOND))
    if op.outputs[0].scale:
        low, high = quantized_range(op.outputs[0], activation)
        return (np.clip(from_real(op, result), low, high).astype(from_real(op, result).dtype),)
    return (from_real(op, activate(result, activation)),)
