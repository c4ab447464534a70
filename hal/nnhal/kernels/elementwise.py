"""Operations on each element: of one tensor, and of two that broadcast.

ADD, SUB, MUL and DIV. Quantised values stay in fixed point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels.array_types import Array, Integers
from nnhal.kernels.quantization import activate, as_output, from_real, requantize, scale_by, to_real
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import BinaryInput, PairwiseInput, SelectInput, UnaryInput
from nnhal.operations.operand_types import B8, I32, QUANT8
from nnhal.operations.windows import activation_of

_HEADROOM = 20
"""Bits that quantised summands are shifted up by, so that bringing them to one scale loses nothing that counts."""

_Function = Callable[[Array, Array], Array]


def add(op: OperationContext) -> tuple[Array, ...]:
    return _sum(op, np.add) if op.main_type() in QUANT8 else _plain(op, np.add)


def sub(op: OperationContext) -> tuple[Array, ...]:
    return _sum(op, np.subtract) if op.main_type() in QUANT8 else _plain(op, np.subtract)


def mul(op: OperationContext) -> tuple[Array, ...]:
    return _product(op) if op.main_type() in QUANT8 else _plain(op, np.multiply)


def div(op: OperationContext) -> tuple[Array, ...]:
    """a / b; integers round down."""
    return _plain(op, np.floor_divide if op.main_type() == I32 else np.divide)


def _plain(op: OperationContext, function: _Function) -> tuple[Array, ...]:
    if op.main_type() == I32:
        return (function(op.value(BinaryInput.FIRST), op.value(BinaryInput.SECOND)),)
    result = function(to_real(op, BinaryInput.FIRST), to_real(op, BinaryInput.SECOND))
    return (from_real(op, activate(result, activation_of(op, BinaryInput.ACTIVATION))),)


def _sum(op: OperationContext, function: _Function) -> tuple[Array, ...]:
    """Both summands in units of twice the larger scale, so that neither they nor their sum overflow."""
    output = op.outputs[0]
    scales = [op.inputs[index].scale for index in (BinaryInput.FIRST, BinaryInput.SECOND)]
    unit = 2 * max(scales)
    first, second = (
        scale_by(_without_zero_point(op, index) << _HEADROOM, scale / unit)
        for index, scale in zip((BinaryInput.FIRST, BinaryInput.SECOND), scales, strict=True)
    )
    multiplier = unit / ((1 << _HEADROOM) * output.scale)
    return (requantize(function(first, second), multiplier, output, activation_of(op, BinaryInput.ACTIVATION)),)


def _product(op: OperationContext) -> tuple[Array, ...]:
    output = op.outputs[0]
    products = _without_zero_point(op, BinaryInput.FIRST) * _without_zero_point(op, BinaryInput.SECOND)
    multiplier = op.inputs[BinaryInput.FIRST].scale * op.inputs[BinaryInput.SECOND].scale / output.scale
    return (requantize(products, multiplier, output, activation_of(op, BinaryInput.ACTIVATION)),)


def _without_zero_point(op: OperationContext, index: int) -> Integers:
    return op.value(index).astype(np.int64) - op.inputs[index].zero_point


def abs_(op: OperationContext) -> tuple[Array, ...]:
    return _signed(op, np.abs)


def exp(op: OperationContext) -> tuple[Array, ...]:
    return _real(op, np.exp)


def floor(op: OperationContext) -> tuple[Array, ...]:
    """The largest integer that is not above x."""
    return _real(op, np.floor)


def hard_swish(op: OperationContext) -> tuple[Array, ...]:
    """x * relu6(x + 3) / 6."""
    values = to_real(op, UnaryInput.INPUT)
    return (from_real(op, values * np.clip(values + np.float32(3), 0, 6) / np.float32(6)),)


def log(op: OperationContext) -> tuple[Array, ...]:
    return _real(op, np.log)


def logical_not(op: OperationContext) -> tuple[Array, ...]:
    return (np.logical_not(op.value(UnaryInput.INPUT)).astype(np.uint8),)


def neg(op: OperationContext) -> tuple[Array, ...]:
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
    return _real(op, np.sqrt)


def _real(op: OperationContext, function: Callable[[Array], Array]) -> tuple[Array, ...]:
    return (from_real(op, function(to_real(op, UnaryInput.INPUT))),)


def _signed(op: OperationContext, function: Callable[[Array], Array]) -> tuple[Array, ...]:
    return (function(op.value(UnaryInput.INPUT)),) if op.main_type() == I32 else _real(op, function)


def pow_(op: OperationContext) -> tuple[Array, ...]:
    base, exponent = np.broadcast_arrays(to_real(op, PairwiseInput.FIRST), to_real(op, PairwiseInput.SECOND))
    # numpy takes square roots for a single exponent of 0.5, which is another function of -inf and -0.
    return (from_real(op, np.power(base, np.ascontiguousarray(exponent))),)


def maximum(op: OperationContext) -> tuple[Array, ...]:
    """The larger of two; requantising keeps the order."""
    return (np.maximum(as_output(op, PairwiseInput.FIRST), as_output(op, PairwiseInput.SECOND)),)


def minimum(op: OperationContext) -> tuple[Array, ...]:
    return (np.minimum(as_output(op, PairwiseInput.FIRST), as_output(op, PairwiseInput.SECOND)),)


_Comparison = Callable[[Array, Array], Array]


def equal(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.equal)


def greater(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.greater)


def greater_equal(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.greater_equal)


def less(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.less)


def less_equal(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.less_equal)


def not_equal(op: OperationContext) -> tuple[Array, ...]:
    return _compare(op, np.not_equal)


def _compare(op: OperationContext, comparison: _Comparison) -> tuple[Array, ...]:
    return (comparison(_operand(op, PairwiseInput.FIRST), _operand(op, PairwiseInput.SECOND)).astype(np.uint8),)


def _operand(op: OperationContext, index: int) -> Array:
    if op.main_type() == B8:
        return op.value(index).astype(np.bool_)
    return to_real(op, index) if op.main_type() in QUANT8 else op.value(index)


def logical_and(op: OperationContext) -> tuple[Array, ...]:
    return (np.logical_and(op.value(PairwiseInput.FIRST), op.value(PairwiseInput.SECOND)).astype(np.uint8),)


def logical_or(op: OperationContext) -> tuple[Array, ...]:
    return (np.logical_or(op.value(PairwiseInput.FIRST), op.value(PairwiseInput.SECOND)).astype(np.uint8),)


def prelu(op: OperationContext) -> tuple[Array, ...]:
    """x, or alpha * x if x is negative."""
    values, alpha = to_real(op, PairwiseInput.FIRST), to_real(op, PairwiseInput.SECOND)
    return (from_real(op, np.where(values < 0, alpha * values, values)),)


def select(op: OperationContext) -> tuple[Array, ...]:
    """The first where the mask is true, the second elsewhere."""
    return (np.where(op.value(SelectInput.MASK), as_output(op, SelectInput.FIRST), as_output(op, SelectInput.SECOND)),)
