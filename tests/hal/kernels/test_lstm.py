from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations.operand_types import FLOAT32, I32, INT32, Q8A, Q8AS, Q8S, Q16S
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.lstm import (
    BATCH,
    FORMS,
    INPUT,
    UNITS,
    Form,
    Four,
    Weights,
    expected_step,
    random_weights,
    sigmoid,
)
from tests.support.operations import Given, absent, output, scalar, tensor

QUANTIZED_16BIT_LSTM_RNG = np.random.default_rng(7)
QUANTIZED_16BIT_LSTM_BATCH = 3
QUANTIZED_16BIT_LSTM_VALUES, CELL = (1 / 128, 128), (2.0**-11, 0)
WEIGHTS = (0.01, 100)


@pytest.mark.parametrize(("inputs", "units"), [(2, 4), (5, 3), (4, 4)])
def test_quantized_16bit_lstm_a_step_is_near_that_of_a_cell_in_floats(inputs: int, units: int) -> None:
    def quantized(shape: tuple[int, ...], quantization: tuple[float, int]) -> Given:
        return tensor(Q8A, QUANTIZED_16BIT_LSTM_RNG.integers(0, 256, shape), *quantization)

    step, state = (
        quantized((QUANTIZED_16BIT_LSTM_BATCH, inputs), QUANTIZED_16BIT_LSTM_VALUES),
        quantized((QUANTIZED_16BIT_LSTM_BATCH, units), QUANTIZED_16BIT_LSTM_VALUES),
    )
    weights = [quantized((units, inputs), WEIGHTS) for _ in range(4)]
    recurrent = [quantized((units, units), WEIGHTS) for _ in range(4)]
    biases = [tensor(I32, QUANTIZED_16BIT_LSTM_RNG.integers(-20000, 20000, units), WEIGHTS[0] / 128) for _ in range(4)]
    memory = tensor(Q16S, QUANTIZED_16BIT_LSTM_RNG.integers(-4000, 4000, (QUANTIZED_16BIT_LSTM_BATCH, units)), *CELL)
    cell, result = compute(
        OperationType.QUANTIZED_16BIT_LSTM,
        [step, *weights, *recurrent, *biases, memory, state],
        output(Q16S, (), *CELL),
        output(Q8A, (), *QUANTIZED_16BIT_LSTM_VALUES),
    )

    def real(given: Given) -> Array:
        assert given.value is not None
        values: Array = (given.value - np.float64(given.operand.zero_point)) * given.operand.scale
        return values

    # The columns of the weights are joined the other way round than the values.
    values = np.hstack([real(step), real(state)])
    admit, forget, update, out = (
        values @ np.hstack([real(recurrent[i]), real(weights[i])]).T + real(biases[i]) for i in range(4)
    )
    expected = sigmoid(forget) * real(memory) + sigmoid(admit) * np.tanh(update)
    np.testing.assert_allclose(cell * CELL[0], expected, atol=4e-3)
    np.testing.assert_allclose((result - 128.0) / 128, sigmoid(out) * np.tanh(expected), atol=8e-3)


QUANTIZED_LSTM_RNG = np.random.default_rng(8)
INPUT_QUANTIZATION = (1 / 32, 3)
STATE_QUANTIZATION = (1 / 64, -5)
CELL_SCALE = 2.0**-12
INTERMEDIATE_SCALE = 2.0**-9
QUANTIZED_LSTM_VALUES = QUANTIZED_LSTM_RNG.integers(-100, 100, (BATCH, INPUT))
MEMORY = QUANTIZED_LSTM_RNG.integers(-4000, 4000, (BATCH, UNITS))


class QuantizedCell:
    """Random weights in integers, and the reals that these stand for."""

    def __init__(self, form: Form) -> None:
        exact = random_weights(form, 9)
        # Without a projection the output is the hidden state, in the hidden state's quantisation.
        self.hidden = (1 / 128, -7) if form.projection else STATE_QUANTIZATION
        self.weights, weights = self._four(Q8S, 127, exact.weights)
        self.recurrent, recurrent = self._four(Q8S, 127, exact.recurrent)
        self.peephole, peephole = self._four(Q16S, 32767, exact.peephole)
        self.layer_norm, layer_norm = self._four(Q16S, 32767, exact.layer_norm)
        scales = [
            norm.operand.scale / (1 << 10) if form.layer_norm else INPUT_QUANTIZATION[0] * gate.operand.scale
            for gate, norm in zip(self.weights, self.layer_norm, strict=True)
        ]
        self.bias, bias = self._biases(exact.bias, scales)
        (self.projection,), (projection,) = self._four(Q8S, 127, [exact.projection])
        scale = self.projection.operand.scale * self.hidden[0]
        (self.projection_bias,), (projection_bias,) = self._biases([exact.projection_bias], [scale])
        self.real = Weights(
            form, weights, recurrent, peephole, bias, layer_norm, [None] * 4, projection, projection_bias
        )

    @staticmethod
    def _four(code: OperandType, largest: int, values: Four) -> tuple[list[Given], Four]:
        givens, reals = [], []
        for value in values:
            scale = 1.0 if value is None else float(np.abs(value).max()) / largest
            raw = None if value is None else np.round(value / scale)
            givens.append(
                replace(absent(code), operand=replace(absent(code).operand, scale=scale))
                if raw is None
                else tensor(code, raw, scale)
            )
            reals.append(None if raw is None else raw * scale)
        return givens, reals

    @staticmethod
    def _biases(values: Four, scales: list[float]) -> tuple[list[Given], Four]:
        raw = [None if v is None else np.round(v / scale) for v, scale in zip(values, scales, strict=True)]
        return (
            [absent(I32) if v is None else tensor(I32, v, s) for v, s in zip(raw, scales, strict=True)],
            [None if v is None else v * s for v, s in zip(raw, scales, strict=True)],
        )

    def step(self, state: Array, clips: tuple[float, float]) -> tuple[Array, ...]:
        inputs = [
            tensor(Q8AS, QUANTIZED_LSTM_VALUES, *INPUT_QUANTIZATION),
            *self.weights,
            *self.recurrent,
            *(self.peephole[i] for i in (0, 1, 3)),
            *self.bias,
            self.projection,
            self.projection_bias,
            tensor(Q8AS, state, *STATE_QUANTIZATION),
            tensor(Q16S, MEMORY, CELL_SCALE),
            *self.layer_norm,
            *(scalar(FLOAT32, clip) for clip in clips),
            *(scalar(FLOAT32, INTERMEDIATE_SCALE) for _ in range(4)),
            scalar(INT32, self.hidden[1]),
            scalar(FLOAT32, self.hidden[0]),
        ]
        return compute(
            OperationType.QUANTIZED_LSTM,
            inputs,
            output(Q8AS, (), *STATE_QUANTIZATION),
            output(Q16S, (), CELL_SCALE),
            output(Q8AS, (), *STATE_QUANTIZATION),
        )


@pytest.mark.parametrize("name", FORMS)
def test_quantized_lstm_a_step_is_near_that_of_a_cell_in_floats(name: str) -> None:
    form = FORMS[name]
    cell = QuantizedCell(form)
    state = QUANTIZED_LSTM_RNG.integers(-60, 60, (BATCH, form.output_size))
    output_state, memory, result = cell.step(state, (form.cell_clip, form.projection_clip))
    scale, zero_point = STATE_QUANTIZATION
    expected, expected_memory = expected_step(
        cell.real,
        (QUANTIZED_LSTM_VALUES - INPUT_QUANTIZATION[1]) * INPUT_QUANTIZATION[0],
        (state - zero_point) * scale,
        MEMORY * CELL_SCALE,
    )
    np.testing.assert_allclose(memory * CELL_SCALE, expected_memory, atol=1e-2)
    np.testing.assert_allclose((result - float(zero_point)) * scale, expected, atol=scale * 0.75 + 1e-2)
    np.testing.assert_array_equal(output_state, result)
