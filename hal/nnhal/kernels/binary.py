"""ADD, SUB, MUL and DIV. Quantised values stay in fixed point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels._quantization import activate, from_real, requantize, scale_by, to_real
from nnhal.kernels._types import Array, Integers
from nnhal.operations import OperationContext
from nnhal.operations._types import I32, QUANT8
from nnhal.operations._window import activation_of
from nnhal.operations.elementwise import BinaryInput

_HEADROOM = 20
"""Bits that quantised summands are shifted up by, so that bringing them to one scale loses nothing that counts."""

_Function = Callable[[Array, Array], Array]


def add(op: OperationContext) -> tuple[Array, ...]:
    """a + b."""
    return _sum(op, np.add) if op.main_type() in QUANT8 else _plain(op, np.add)


def sub(op: OperationContext) -> tuple[Array, ...]:
    """a - b."""
    return _sum(op, np.subtract) if op.main_type() in QUANT8 else _plain(op, np.subtract)


def mul(op: OperationContext) -> tuple[Array, ...]:
    """a * b."""
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
