"""Activations: values that are clamped or bent, and softmax along an axis."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.quantization import activate, clamp, from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.activation import EluInput, LogisticInput, LogSoftmaxInput, ReluInput, SoftmaxInput, TanhInput
from nnhal.operations.operand_types import QUANT8
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


def elu(op: OperationContext) -> tuple[Array, ...]:
    """x, or alpha * (exp(x) - 1) if x is negative; expm1 keeps the digits of a small x."""
    values = to_real(op, EluInput.INPUT)
    return (from_real(op, np.where(values < 0, np.float32(op.real(EluInput.ALPHA)) * np.expm1(values), values)),)


def logistic(op: OperationContext) -> tuple[Array, ...]:
    """1 / (1 + exp(-x)). If exp overflows, infinity leads to the right result, 0."""
    return (from_real(op, np.float32(1) / (np.float32(1) + np.exp(-to_real(op, LogisticInput.INPUT)))),)


def tanh(op: OperationContext) -> tuple[Array, ...]:
    return (from_real(op, np.tanh(to_real(op, TanhInput.INPUT))),)


def softmax(op: OperationContext) -> tuple[Array, ...]:
    """exp((x - max) * beta) / sum of the same; subtracting the largest keeps exp from overflowing."""
    values = to_real(op, SoftmaxInput.INPUT)
    axis = op.integer(SoftmaxInput.AXIS, default=-1)
    largest = values.max(axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp((values - largest) * np.float32(op.real(SoftmaxInput.BETA)))
    return (from_real(op, powers / powers.sum(axis=axis, keepdims=True)),)


def log_softmax(op: OperationContext) -> tuple[Array, ...]:
    """x * beta - log(sum of exp(x * beta)); subtracting the largest keeps exp from overflowing."""
    axis = op.integer(LogSoftmaxInput.AXIS)
    values = to_real(op, LogSoftmaxInput.INPUT) * np.float32(op.real(LogSoftmaxInput.BETA))
    values = values - values.max(axis=axis, keepdims=True, initial=-np.inf)
    return (from_real(op, values - np.log(np.exp(values).sum(axis=axis, keepdims=True))),)
