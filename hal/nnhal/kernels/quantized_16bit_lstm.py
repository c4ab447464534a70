"""QUANTIZED_16BIT_LSTM."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._fixed_point import logistic, multiply, saturate, scale, tanh
from nnhal.kernels._quantization import scale_by
from nnhal.kernels._types import Array, Integers
from nnhal.operations import OperationContext
from nnhal.operations.lstm import BIASES, INPUT_WEIGHTS, RECURRENT_WEIGHTS, VALUES, Quantized16bitLstmInput

_GATE_BITS = 3
"""The integer bits of a gate before its activation."""
_CELL_BITS = 4
"""The integer bits of the cell state."""


def quantized_16bit_lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step in fixed point: 8-bit products, 16-bit gates."""
    admit, forget, update, output = (_gate(op, number) for number in range(4))
    admitted = multiply(logistic(admit, _GATE_BITS), tanh(update, _GATE_BITS))
    kept = multiply(logistic(forget, _GATE_BITS), op.value(Quantized16bitLstmInput.CELL_STATE).astype(np.int64))
    cell = saturate(scale(admitted, -_CELL_BITS) + kept)
    result = multiply(logistic(output, _GATE_BITS), tanh(cell, _CELL_BITS))
    quantized = np.clip(scale(result, -8) + VALUES[1], 0, 255)
    return cell.astype(np.int16), quantized.astype(np.uint8)


def _gate(op: OperationContext, number: int) -> Integers:
    """A gate before its activation, of three integer bits.

    NNAPI's reference joins the values input first and the weights recurrent weights first, so that the first columns
    of the recurrent weights meet the input. Its models expect exactly that.
    """
    values = _joined(op, Quantized16bitLstmInput.INPUT, Quantized16bitLstmInput.OUTPUT_STATE)
    weights = _joined(op, RECURRENT_WEIGHTS[number], INPUT_WEIGHTS[number])
    total = values @ weights.T + op.value(BIASES[number])
    return saturate(scale_by(total, op.inputs[BIASES[number]].scale * 2 ** (15 - _GATE_BITS)))


def _joined(op: OperationContext, *indexes: int) -> Integers:
    return np.concatenate([op.value(i).astype(np.int64) - op.inputs[i].zero_point for i in indexes], axis=-1)
