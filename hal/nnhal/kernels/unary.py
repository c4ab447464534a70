"""ABS, EXP, FLOOR, HARD_SWISH, LOG, LOGICAL_NOT, NEG, RSQRT, SIN and SQRT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._types import I32, QUANT8
from nnhal.operations.elementwise import UnaryInput


def absolute(op: OperationContext) -> tuple[Array, ...]:
    """The value without its sign."""
    return _signed(op, np.abs)


def exp(op: OperationContext) -> tuple[Array, ...]:
    """e to the power of x."""
    return _real(op, np.exp)


def floor(op: OperationContext) -> tuple[Array, ...]:
    """The largest integer that is not above x."""
    return _real(op, np.floor)


def hard_swish(op: OperationContext) -> tuple[Array, ...]:
    """x * relu6(x + 3) / 6."""
    values = to_real(op, UnaryInput.INPUT)
    return (from_real(op, values * np.clip(values + np.float32(3), 0, 6) / np.float32(6)),)


def log(op: OperationContext) -> tuple[Array, ...]:
    """The natural logarithm."""
    return _real(op, np.log)


def logical_not(op: OperationContext) -> tuple[Array, ...]:
    """Whether x is false."""
    return (np.logical_not(op.value(UnaryInput.INPUT)).astype(np.uint8),)


def neg(op: OperationContext) -> tuple[Array, ...]:
    """-x."""
    return _signed(op, np.negative)


def rsqrt(op: OperationContext) -> tuple[Array, ...]:
    """1 / sqrt(x). A quantised output has no infinity: it saturates if x is not positive."""
    values = to_real(op, UnaryInput.INPUT)
    if op.main_type() in QUANT8:
        values = np.maximum(values, np.float32(0))
    return (from_real(op, np.reciprocal(np.sqrt(values))),)


def sin(op: OperationContext) -> tuple[Array, ...]:
    """The sine of an angle in radians."""
    return _real(op, np.sin)


def sqrt(op: OperationContext) -> tuple[Array, ...]:
    """The square root."""
    return _real(op, np.sqrt)


def _real(op: OperationContext, function: Callable[[Array], Array]) -> tuple[Array, ...]:
    return (from_real(op, function(to_real(op, UnaryInput.INPUT))),)


def _signed(op: OperationContext, function: Callable[[Array], Array]) -> tuple[Array, ...]:
    return (function(op.value(UnaryInput.INPUT)),) if op.main_type() == I32 else _real(op, function)
