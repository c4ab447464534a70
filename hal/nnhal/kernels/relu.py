"""RELU, RELU1 and RELU6."""

from __future__ import annotations

from nnhal.kernels._quantization import activate, clamp, from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._types import QUANT8
from nnhal.operations.activation import ReluInput
from nnhal.types import FusedActivation


def relu(op: OperationContext) -> tuple[Array, ...]:
    """max(x, 0)."""
    return _clamped(op, FusedActivation.RELU)


def relu1(op: OperationContext) -> tuple[Array, ...]:
    """x clamped to [-1, 1]."""
    return _clamped(op, FusedActivation.RELU1)


def relu6(op: OperationContext) -> tuple[Array, ...]:
    """x clamped to [0, 6]."""
    return _clamped(op, FusedActivation.RELU6)


def _clamped(op: OperationContext, activation: FusedActivation) -> tuple[Array, ...]:
    if op.main_type() in QUANT8:
        return (clamp(op.value(ReluInput.INPUT), op.outputs[0], activation),)
    return (from_real(op, activate(to_real(op, ReluInput.INPUT), activation)),)
