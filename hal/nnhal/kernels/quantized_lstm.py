"""QUANTIZED_LSTM."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._fixed_point import logistic, saturate, tanh
from nnhal.kernels._integer_layer_norm import layer_norm
from nnhal.kernels._quantization import divide_half_away, range_of, scale_by
from nnhal.kernels._types import Array, Integers
from nnhal.operations import OperationContext
from nnhal.operations.lstm import INTERMEDIATE_SCALES, QUANTIZED_LSTM_CELL, QuantizedLstmInput, cell_exponent
from nnhal.types import Operand

_GATE_BITS = 3
_GATE_SCALE = 2.0 ** (_GATE_BITS - 15)
_ONE = (1 << 15) - 1


def quantized_lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step in fixed point: 8-bit products, 16-bit gates and cell state; each product is requantised on its own."""
    exponent = cell_exponent(op)
    before = _integers(op, QUANTIZED_LSTM_CELL.cell_state)
    forget = logistic(_gate(op, 1, QUANTIZED_LSTM_CELL.peepholes[1], before), _GATE_BITS)
    if op.has(QUANTIZED_LSTM_CELL.input_weights[0]):
        admit = logistic(_gate(op, 0, QUANTIZED_LSTM_CELL.peepholes[0], before), _GATE_BITS)
    else:
        admit = _ONE - forget
    update = tanh(_gate(op, 2, None, before), _GATE_BITS)
    kept = divide_half_away(forget * before, 1 << 15)
    cell = saturate(kept + divide_half_away(admit * update, 1 << (30 + exponent)))
    cell = _clip(cell, op.real(QuantizedLstmInput.CELL_CLIP) / 2.0**exponent, 0, _ONE)
    gate = logistic(_gate(op, 3, QUANTIZED_LSTM_CELL.peepholes[2], cell), _GATE_BITS)
    output = _output(op, gate * tanh(cell, 15 + exponent)).astype(np.int8)
    return output, cell.astype(np.int16), output


def _gate(op: OperationContext, number: int, peephole: int | None, cell: Integers) -> Integers:
    """A gate (input, forget, update, output) before its activation, of three integer bits."""
    normalized = op.has(QUANTIZED_LSTM_CELL.layer_norms[number])
    scale = op.real(INTERMEDIATE_SCALES[number]) if normalized else _GATE_SCALE
    bias = _integers(op, QUANTIZED_LSTM_CELL.biases[number])
    total = _product(
        op, QuantizedLstmInput.INPUT, QUANTIZED_LSTM_CELL.input_weights[number], 0 if normalized else bias, scale
    )
    total = saturate(
        total + _product(op, QUANTIZED_LSTM_CELL.output_state, QUANTIZED_LSTM_CELL.recurrent_weights[number], 0, scale)
    )
    if peephole is not None and op.has(peephole):
        effective = 2.0 ** cell_exponent(op) * op.inputs[peephole].scale / scale
        total = saturate(total + scale_by(_integers(op, peephole) * cell, effective))
    if normalized:
        weights = QUANTIZED_LSTM_CELL.layer_norms[number]
        total = layer_norm(total, _integers(op, weights), bias, op.inputs[weights].scale)
    return total


def _product(op: OperationContext, values: int, weights: int, bias: Integers | int, scale: float) -> Integers:
    operand = op.inputs[values]
    total = (_integers(op, values) - operand.zero_point) @ _integers(op, weights).T + bias
    return saturate(scale_by(total, operand.scale * op.inputs[weights].scale / scale))


def _output(op: OperationContext, hidden: Integers) -> Integers:
    """The output from the hidden state, whose 30 fraction bits become 8 bits of the hidden state's quantisation.

    Without projection the hidden state is the output.
    """
    state = op.inputs[QUANTIZED_LSTM_CELL.output_state]
    scale, zero_point = (
        op.real(QuantizedLstmInput.HIDDEN_STATE_SCALE),
        op.integer(QuantizedLstmInput.HIDDEN_STATE_ZERO_POINT),
    )
    hidden = _clamp(scale_by(hidden, 2.0**-30 / scale) + zero_point, state)
    if not op.has(QUANTIZED_LSTM_CELL.projection):
        return hidden
    total = (hidden - zero_point) @ _integers(op, QUANTIZED_LSTM_CELL.projection).T
    if op.has(QUANTIZED_LSTM_CELL.projection_bias):
        total = total + _integers(op, QUANTIZED_LSTM_CELL.projection_bias)
    effective = op.inputs[QUANTIZED_LSTM_CELL.projection].scale * scale / state.scale
    output = _clamp(scale_by(total, effective) + state.zero_point, state)
    return _clip(
        output, op.real(QuantizedLstmInput.PROJECTION_CLIP) / state.scale, state.zero_point, range_of(state)[1]
    )


def _clamp(values: Integers, operand: Operand) -> Integers:
    return np.clip(values, *range_of(operand))


def _clip(values: Integers, limit: float, zero_point: int, largest: int) -> Integers:
    steps = int(min(limit, largest))
    return np.clip(values, zero_point - steps, zero_point + steps) if limit else values


def _integers(op: OperationContext, index: int) -> Integers:
    values: Integers = op.value(index).astype(np.int64)
    return values
