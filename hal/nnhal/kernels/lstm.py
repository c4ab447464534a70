"""LSTM cells: one step of float32, float16 or 8-bit values, and sequences of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.kernels.array_types import Array, Floats, Integers
from nnhal.kernels.fixed_point import logistic, multiply, saturate, scale, tanh
from nnhal.kernels.quantization import divide_half_away, from_real, range_of, scale_by, scale_fixed, to_real
from nnhal.kernels.sequences import merge, read_sequence, unroll, unroll_both, write_sequences
from nnhal.operations import OperationContext
from nnhal.operations.lstm import (
    BACKWARD,
    BIASES,
    CELL,
    FORWARD,
    INPUT_WEIGHTS,
    INTERMEDIATE_SCALES,
    QUANTIZED_LSTM_CELL,
    RECURRENT_WEIGHTS,
    UNIDIRECTIONAL_SEQUENCE_LSTM_CELL,
    VALUES,
    BidirectionalSequenceLstmInput,
    LstmActivation,
    LstmInput,
    LstmInputs,
    Quantized16bitLstmInput,
    QuantizedLstmInput,
    UnidirectionalSequenceLstmInput,
    cell_exponent,
    linking,
    lstm_activation_of,
)
from nnhal.types import Operand

_EPSILON = np.float32(1e-8)


class LstmState(NamedTuple):
    """The state between steps: the output [batch, output size] and the cell state [batch, units]."""

    output: Floats
    cell: Floats


@dataclass(frozen=True, slots=True)
class LstmGate:
    """The weights of a gate, or of the update, which is computed the same way."""

    weights: Floats
    """[units, input size]."""

    recurrent: Floats
    """[units, output size]."""

    bias: Floats
    """[units]."""

    peephole: Floats | None
    """[units]."""

    layer_norm: Floats | None
    """[units]."""

    aux: Floats | None
    """[units, auxiliary input size]."""

    def __call__(self, values: Floats, state: LstmState, aux: Floats | None) -> Floats:
        """The gate before its activation. A peephole reads the cell state."""
        total = values @ self.weights.T + state.output @ self.recurrent.T
        if self.aux is not None and aux is not None:
            total = total + aux @ self.aux.T
        if self.peephole is not None:
            total = total + self.peephole * state.cell
        if self.layer_norm is not None:
            total = _normalize(total) * self.layer_norm
        return total + self.bias


@dataclass(frozen=True, slots=True)
class LstmCell:
    """A long short-term memory cell: a SequenceCell."""

    input: LstmGate | None
    """None if the input gate is coupled to the forget gate."""

    forget: LstmGate
    """The forget gate."""

    update: LstmGate
    """The update of the cell state."""

    output: LstmGate
    """The output gate."""

    projection: Floats | None
    """[output size, units]."""

    projection_bias: Floats | None
    """[output size]."""

    activation: LstmActivation
    """The activation of the update and of the cell state."""

    cell_clip: np.float32
    """The bound of the cell state; 0 for none."""

    projection_clip: np.float32
    """The bound of the projected output; 0 for none."""

    @property
    def output_size(self) -> int:
        return len(self.output.bias if self.projection is None else self.projection)

    def step(self, values: Floats, state: LstmState, aux: Floats | None = None) -> tuple[Floats, LstmState]:
        forget = _sigmoid(self.forget(values, state, aux))
        admit = 1 - forget if self.input is None else _sigmoid(self.input(values, state, aux))
        memory = forget * state.cell + admit * _activate(self.update(values, state, aux), self.activation)
        memory = _lstm_clip(memory, self.cell_clip)
        # The output gate's peephole reads the new cell state.
        gate = _sigmoid(self.output(values, LstmState(state.output, memory), aux))
        output = self._project(gate * _activate(memory, self.activation))
        return output, LstmState(output, memory)

    def _project(self, output: Floats) -> Floats:
        if self.projection is None:
            return output
        projected = output @ self.projection.T
        if self.projection_bias is not None:
            projected = projected + self.projection_bias
        return _lstm_clip(projected, self.projection_clip)


def read_cell(op: OperationContext, cell: LstmInputs, activation: int) -> LstmCell:
    """Read a cell from an operation's inputs. ``activation`` is the index of the activation; the clips follow it."""

    def given(index: int) -> Floats | None:
        return to_real(op, index) if op.has(index) else None

    def gate(number: int, peephole: int | None) -> LstmGate:
        return LstmGate(
            to_real(op, cell.input_weights[number]),
            to_real(op, cell.recurrent_weights[number]),
            to_real(op, cell.biases[number]),
            None if peephole is None else given(peephole),
            given(cell.layer_norms[number]),
            given(cell.all_aux_weights[number]) if cell.all_aux_weights else None,
        )

    return LstmCell(
        gate(0, cell.peepholes[0]) if op.has(cell.input_weights[0]) else None,
        gate(1, cell.peepholes[1]),
        gate(2, None),
        gate(3, cell.peepholes[2]),
        given(cell.projection),
        given(cell.projection_bias),
        lstm_activation_of(op, activation),
        np.float32(op.real(activation + 1)),
        np.float32(op.real(activation + 2)),
    )


def read_state(op: OperationContext, cell: LstmInputs) -> LstmState:
    return LstmState(to_real(op, cell.output_state), to_real(op, cell.cell_state))


def _normalize(values: Floats) -> Floats:
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    # A constant row is all zero once centred; the epsilon keeps it from becoming 0 / 0.
    normalized: Floats = centred / np.sqrt(np.where(variance == 0, _EPSILON, variance))
    return normalized


def _sigmoid(values: Floats) -> Floats:
    return np.reciprocal(np.exp(-values) + np.float32(1))


def _activate(values: Floats, activation: LstmActivation) -> Floats:
    if activation == LstmActivation.RELU:
        return np.maximum(values, np.float32(0))
    if activation == LstmActivation.RELU6:
        return np.clip(values, np.float32(0), np.float32(6))
    if activation == LstmActivation.TANH:
        return np.tanh(values)
    if activation == LstmActivation.SIGMOID:
        return _sigmoid(values)
    return values


def _lstm_clip(values: Floats, limit: np.float32) -> Floats:
    return np.clip(values, -limit, limit) if limit else values


def lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step. The scratch output exists for implementations that need the memory; here it is zero."""
    cell = read_cell(op, CELL, LstmInput.ACTIVATION)
    output, state = cell.step(to_real(op, LstmInput.INPUT), read_state(op, CELL))
    gates = 3 if cell.input is None else 4
    scratch = np.zeros((len(output), gates * state.cell.shape[1]), np.float32)
    results = (scratch, state.output, state.cell, output)
    return tuple(from_real(op, values, index) for index, values in enumerate(results))


def unidirectional_sequence_lstm(op: OperationContext) -> tuple[Array, ...]:
    """A cell through time; its last state too if it is an output."""
    time_major = op.boolean(UnidirectionalSequenceLstmInput.TIME_MAJOR)
    inputs = read_sequence(op, UnidirectionalSequenceLstmInput.INPUT, time_major)
    outputs, state = unroll(
        read_cell(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL, UnidirectionalSequenceLstmInput.ACTIVATION),
        inputs,
        read_state(op, UNIDIRECTIONAL_SEQUENCE_LSTM_CELL),
    )
    states = [from_real(op, values, 1) for values in state] if len(op.outputs) > 1 else []
    return (*write_sequences(op, [outputs], time_major), *states)


def bidirectional_sequence_lstm(op: OperationContext) -> tuple[Array, ...]:
    """Two cells through time, one of them backward; their last states too if they are outputs."""
    time_major = op.boolean(BidirectionalSequenceLstmInput.TIME_MAJOR)
    sequences, states = unroll_both(
        (
            read_cell(op, FORWARD, BidirectionalSequenceLstmInput.ACTIVATION),
            read_cell(op, BACKWARD, BidirectionalSequenceLstmInput.ACTIVATION),
        ),
        read_sequence(op, BidirectionalSequenceLstmInput.INPUT, time_major),
        (read_state(op, FORWARD), read_state(op, BACKWARD)),
        read_sequence(op, BidirectionalSequenceLstmInput.AUX_INPUT, time_major)
        if op.has(BidirectionalSequenceLstmInput.AUX_INPUT)
        else None,
        linking(op),
    )
    outputs = write_sequences(
        op, merge(sequences, op.boolean(BidirectionalSequenceLstmInput.MERGE_OUTPUTS)), time_major
    )
    last = (from_real(op, values) for state in states for values in state)
    return (*outputs, *last)[: len(op.outputs)]


_QUANTIZED_16BIT_LSTM_GATE_BITS = 3
"""The integer bits of a gate before its activation."""
_CELL_BITS = 4
"""The integer bits of the cell state."""


def quantized_16bit_lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step in fixed point: 8-bit products, 16-bit gates."""
    admit, forget, update, output = (_quantized_16bit_lstm_gate(op, number) for number in range(4))
    admitted = multiply(logistic(admit, _QUANTIZED_16BIT_LSTM_GATE_BITS), tanh(update, _QUANTIZED_16BIT_LSTM_GATE_BITS))
    kept = multiply(
        logistic(forget, _QUANTIZED_16BIT_LSTM_GATE_BITS), op.value(Quantized16bitLstmInput.CELL_STATE).astype(np.int64)
    )
    cell = saturate(scale(admitted, -_CELL_BITS) + kept)
    result = multiply(logistic(output, _QUANTIZED_16BIT_LSTM_GATE_BITS), tanh(cell, _CELL_BITS))
    quantized = np.clip(scale(result, -8) + VALUES[1], 0, 255)
    return cell.astype(np.int16), quantized.astype(np.uint8)


def _quantized_16bit_lstm_gate(op: OperationContext, number: int) -> Integers:
    """A gate before its activation, of three integer bits.

    NNAPI's reference joins the values input first and the weights recurrent weights first, so that the first columns
    of the recurrent weights meet the input. Its models expect exactly that.
    """
    values = _joined(op, Quantized16bitLstmInput.INPUT, Quantized16bitLstmInput.OUTPUT_STATE)
    weights = _joined(op, RECURRENT_WEIGHTS[number], INPUT_WEIGHTS[number])
    total = values @ weights.T + op.value(BIASES[number])
    return saturate(scale_by(total, op.inputs[BIASES[number]].scale * 2 ** (15 - _QUANTIZED_16BIT_LSTM_GATE_BITS)))


def _joined(op: OperationContext, *indexes: int) -> Integers:
    return np.concatenate([op.value(i).astype(np.int64) - op.inputs[i].zero_point for i in indexes], axis=-1)


_QUANTIZED_LSTM_GATE_BITS = 3
_GATE_SCALE = 2.0 ** (_QUANTIZED_LSTM_GATE_BITS - 15)
_ONE = (1 << 15) - 1


def quantized_lstm(op: OperationContext) -> tuple[Array, ...]:
    """One step in fixed point: 8-bit products, 16-bit gates and cell state; each product is requantised on its own."""
    exponent = cell_exponent(op)
    before = _integers(op, QUANTIZED_LSTM_CELL.cell_state)
    forget = logistic(_quantized_lstm_gate(op, 1, QUANTIZED_LSTM_CELL.peepholes[1], before), _QUANTIZED_LSTM_GATE_BITS)
    if op.has(QUANTIZED_LSTM_CELL.input_weights[0]):
        admit = logistic(
            _quantized_lstm_gate(op, 0, QUANTIZED_LSTM_CELL.peepholes[0], before), _QUANTIZED_LSTM_GATE_BITS
        )
    else:
        admit = _ONE - forget
    update = tanh(_quantized_lstm_gate(op, 2, None, before), _QUANTIZED_LSTM_GATE_BITS)
    kept = divide_half_away(forget * before, 1 << 15)
    cell = saturate(kept + divide_half_away(admit * update, 1 << (30 + exponent)))
    cell = _quantized_lstm_clip(cell, op.real(QuantizedLstmInput.CELL_CLIP) / 2.0**exponent, 0, _ONE)
    gate = logistic(_quantized_lstm_gate(op, 3, QUANTIZED_LSTM_CELL.peepholes[2], cell), _QUANTIZED_LSTM_GATE_BITS)
    output = _output(op, gate * tanh(cell, 15 + exponent)).astype(np.int8)
    return output, cell.astype(np.int16), output


def _quantized_lstm_gate(op: OperationContext, number: int, peephole: int | None, cell: Integers) -> Integers:
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
    return _quantized_lstm_clip(
        output, op.real(QuantizedLstmInput.PROJECTION_CLIP) / state.scale, state.zero_point, range_of(state)[1]
    )


def _clamp(values: Integers, operand: Operand) -> Integers:
    return np.clip(values, *range_of(operand))


def _quantized_lstm_clip(values: Integers, limit: float, zero_point: int, largest: int) -> Integers:
    steps = int(min(limit, largest))
    return np.clip(values, zero_point - steps, zero_point + steps) if limit else values


def _integers(op: OperationContext, index: int) -> Integers:
    values: Integers = op.value(index).astype(np.int64)
    return values


_FRACTION_BITS = 10
"""Values are normalised with ten bits of fraction, since a normalised row is mostly within -3 to 3."""
_INTEGER_LAYER_NORM_GATE_SCALE = 2.0**-12
_NEWTON_STEPS = 5


def layer_norm(values: Integers, weights: Integers, bias: Integers, weight_scale: float) -> Integers:
    """Normalise rows [batch, units] to mean 0 and deviation 1, times weights plus bias: 16 bits, three of them integer.

    The scale of ``values`` does not matter; ``bias`` counts weight_scale / 2**10.
    """
    size = values.shape[-1]
    mean = _truncate(values.sum(axis=-1, keepdims=True) << _FRACTION_BITS, size)
    squares = np.square(values).sum(axis=-1, keepdims=True) * ((1 << 2 * _FRACTION_BITS) // size)
    variance = _truncate(squares - np.square(mean), 1 << 2 * _FRACTION_BITS)
    least = max(1, int(10000 * weight_scale))  # replaces the variance of a row that hardly varies
    mantissa, exponent = _inverse_root(np.where(variance < 1, least, variance))
    normalized = scale_fixed((values << _FRACTION_BITS) - mean, mantissa, exponent)
    total = normalized * weights + bias
    half = 1 << (_FRACTION_BITS - 1)
    rescaled = _truncate(total + np.where(total > 0, half, -half), 1 << _FRACTION_BITS)
    return saturate(scale_by(rescaled, weight_scale / _INTEGER_LAYER_NORM_GATE_SCALE))


def _inverse_root(values: Integers) -> tuple[Integers, Integers]:
    """1 / sqrt(x) of integers from 1 on, as mantissa / 2**31 * 2**exponent.

    The mantissa is not normalised and its Newton iteration stops early, as in the reference: the exponent decides how
    products are rounded.
    """
    bits = np.frexp(values)[1].astype(np.int64)
    shift = 12 - (31 - bits) // 2
    scaled = values * 0.25**shift / 128  # in [1/4, 1)
    root = np.ones_like(scaled)
    for _ in range(_NEWTON_STEPS):
        root = 1.5 * root - 0.5 * scaled * root**3
    mantissa = np.rint(root * np.sqrt(0.5) * (1 << 28)).astype(np.int64) << np.maximum(-shift, 0)
    return np.where(values == 1, (1 << 31) - 1, mantissa), np.where(values == 1, 0, -np.maximum(shift, 0))


def _truncate(values: Integers, divisor: int) -> Integers:
    """Divide, rounding towards zero."""
    quotients: Integers = np.sign(values) * (np.abs(values) // divisor)
    return quotients
