from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, I32, INT32, Q8A, Q8AS, Q8S, Q16S
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
    as_givens,
    expected_sequence,
    expected_step,
    random_weights,
    sigmoid,
    without_aux,
)
from tests.support.operations import Given, absent, boolean, integers, output, scalar, tensor

RNG = np.random.default_rng(1)
VALUES = np.round(RNG.normal(0, 1, (BATCH, INPUT)) * 64) / 64
TANH = 4


def lstm_inputs(code: OperandType, form: Form, state: Array, memory: Array, activation: int) -> list[Given]:
    weights = random_weights(form)
    real = FLOAT16 if code == F16 else FLOAT32
    inputs = [
        tensor(code, VALUES),
        *weights.givens(code),
        tensor(code, state),
        tensor(code, memory),
        *integers(activation),
        scalar(real, form.cell_clip),
        scalar(real, form.projection_clip),
    ]
    return inputs + as_givens(code, weights.layer_norm) if form.layer_norm else inputs


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
@pytest.mark.parametrize("name", FORMS)
def test_a_step_follows_the_formulas_in_every_form(name: str, code: OperandType, tolerance: float) -> None:
    form = FORMS[name]
    state = np.round(RNG.normal(0, 0.5, (BATCH, form.output_size)) * 64) / 64
    memory = np.round(RNG.normal(0, 0.5, (BATCH, UNITS)) * 64) / 64
    scratch, output_state, cell_state, result = compute(
        OperationType.LSTM,
        lstm_inputs(code, form, state, memory, TANH),
        *(output(code) for _ in range(4)),
    )
    expected, expected_memory = expected_step(random_weights(form), VALUES, state, memory)
    assert scratch.shape == (BATCH, (3 if form.coupled else 4) * UNITS)
    np.testing.assert_allclose(result, expected, atol=tolerance)
    np.testing.assert_allclose(cell_state, expected_memory, atol=tolerance)
    np.testing.assert_array_equal(output_state, result)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        (0, lambda x: x),
        (1, lambda x: np.maximum(x, 0)),
        (3, lambda x: np.clip(x, 0, 6)),
        (6, sigmoid),
    ],
)
def test_the_activation_is_the_cells_own_enumeration(activation: int, function: Callable[[Array], Array]) -> None:
    zero = np.zeros((BATCH, UNITS))
    *_, cell_state, result = compute(
        OperationType.LSTM,
        lstm_inputs(F32, Form(coupled=True), zero, zero, activation),
        *(output(F32) for _ in range(4)),
    )
    weights = random_weights(Form(coupled=True))
    forget, update, out = (VALUES @ weights.weights[i].T + weights.bias[i] for i in (1, 2, 3))
    memory = (1 - sigmoid(forget)) * function(update)
    np.testing.assert_allclose(cell_state, memory, atol=1e-5)
    np.testing.assert_allclose(result, sigmoid(out) * function(memory), atol=1e-5)


def test_a_constant_row_is_normalised_to_zero() -> None:
    form = Form(layer_norm=True)
    zero = np.zeros((BATCH, UNITS))
    inputs = lstm_inputs(F32, form, zero, zero, TANH)
    inputs[0] = tensor(F32, np.zeros((BATCH, INPUT)))
    *_, result = compute(OperationType.LSTM, inputs, *(output(F32) for _ in range(4)))
    bias = random_weights(form).bias
    admit, out = sigmoid(bias[0]), sigmoid(bias[3])
    np.testing.assert_allclose(result, np.tile(out * np.tanh(admit * np.tanh(bias[2])), (BATCH, 1)), atol=1e-5)


UNIDIRECTIONAL_SEQUENCE_LSTM_RNG = np.random.default_rng(2)
UNIDIRECTIONAL_SEQUENCE_LSTM_TIME = 4
UNIDIRECTIONAL_SEQUENCE_LSTM_VALUES = (
    np.round(UNIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 1, (UNIDIRECTIONAL_SEQUENCE_LSTM_TIME, BATCH, INPUT)) * 64) / 64
)
UNIDIRECTIONAL_SEQUENCE_LSTM_TANH = 4


def sequence_inputs(code: OperandType, form: Form, state: Array, memory: Array, time_major: bool) -> list[Given]:
    weights = random_weights(form)
    real = FLOAT16 if code == F16 else FLOAT32
    return [
        tensor(
            code,
            UNIDIRECTIONAL_SEQUENCE_LSTM_VALUES if time_major else UNIDIRECTIONAL_SEQUENCE_LSTM_VALUES.swapaxes(0, 1),
        ),
        *weights.givens(code),
        tensor(code, state),
        tensor(code, memory),
        *integers(UNIDIRECTIONAL_SEQUENCE_LSTM_TANH),
        scalar(real, form.cell_clip),
        scalar(real, form.projection_clip),
        boolean(time_major),
        *as_givens(code, weights.layer_norm),
    ]


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
@pytest.mark.parametrize("name", FORMS)
def test_the_cell_runs_through_time(name: str, code: OperandType, tolerance: float, time_major: bool) -> None:
    form = FORMS[name]
    state = np.round(UNIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 0.5, (BATCH, form.output_size)) * 64) / 64
    memory = np.round(UNIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 0.5, (BATCH, UNITS)) * 64) / 64
    results = compute(
        OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        sequence_inputs(code, form, state, memory, time_major),
        *(output(code) for _ in range(3)),
    )
    outputs, last, cell = expected_sequence(random_weights(form), UNIDIRECTIONAL_SEQUENCE_LSTM_VALUES, state, memory)
    np.testing.assert_allclose(results[0] if time_major else results[0].swapaxes(0, 1), outputs, atol=tolerance)
    np.testing.assert_allclose(results[1], last, atol=tolerance)
    np.testing.assert_allclose(results[2], cell, atol=tolerance)


def test_the_states_need_not_be_asked_for() -> None:
    zero = np.zeros((BATCH, UNITS))
    inputs = sequence_inputs(F32, Form(), zero, zero, True)
    results = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, output(F32))
    assert [result.shape for result in results] == [(UNIDIRECTIONAL_SEQUENCE_LSTM_TIME, BATCH, UNITS)]


BIDIRECTIONAL_SEQUENCE_LSTM_RNG = np.random.default_rng(3)
BIDIRECTIONAL_SEQUENCE_LSTM_TIME, AUX = 4, 2
BIDIRECTIONAL_SEQUENCE_LSTM_VALUES = (
    np.round(BIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 1, (BIDIRECTIONAL_SEQUENCE_LSTM_TIME, BATCH, INPUT)) * 64) / 64
)
AUX_VALUES = (
    np.round(BIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 1, (BIDIRECTIONAL_SEQUENCE_LSTM_TIME, BATCH, AUX)) * 64) / 64
)
BIDIRECTIONAL_SEQUENCE_LSTM_TANH = 4


class Both:
    """A forward and a backward cell of one form, with states to start from."""

    def __init__(self, form: Form, backward_input: int = INPUT) -> None:
        self.form = form
        self.cells = (random_weights(form, 5), random_weights(form, 6, backward_input))
        sizes = (form.output_size, UNITS, form.output_size, UNITS)
        self.states = [
            np.round(BIDIRECTIONAL_SEQUENCE_LSTM_RNG.normal(0, 0.5, (BATCH, size)) * 64) / 64 for size in sizes
        ]

    def inputs(
        self,
        code: OperandType = F32,
        aux: Array | None = None,
        merged: bool = False,
        time_major: bool = True,
    ) -> list[Given]:
        def sequence(values: Array) -> Given:
            return tensor(code, values if time_major else values.swapaxes(0, 1))

        forward, backward = self.cells
        real = FLOAT16 if code == F16 else FLOAT32
        return [
            sequence(BIDIRECTIONAL_SEQUENCE_LSTM_VALUES),
            *forward.givens(code),
            *backward.givens(code),
            *(tensor(code, state) for state in self.states),
            absent(code) if aux is None else sequence(aux),
            *as_givens(code, forward.aux),
            *as_givens(code, backward.aux),
            *integers(BIDIRECTIONAL_SEQUENCE_LSTM_TANH),
            scalar(real, self.form.cell_clip),
            scalar(real, self.form.projection_clip),
            boolean(merged),
            boolean(time_major),
            *as_givens(code, forward.layer_norm),
            *as_givens(code, backward.layer_norm),
        ]

    def expected(self, forward_values: Array, backward_values: Array) -> list[Array]:
        def run(cell: Weights, values: Array, states: list[Array]) -> tuple[Array, Array, Array]:
            return expected_sequence(without_aux(cell) if cell.form.aux else cell, values, *states)

        forward, *forward_states = run(self.cells[0], forward_values, self.states[:2])
        backward, *backward_states = run(self.cells[1], backward_values[::-1], self.states[2:])
        return [forward, backward[::-1], *forward_states, *backward_states]


def check(results: tuple[Array, ...], expected: list[Array], tolerance: float = 1e-5) -> None:
    assert len(results) == len(expected)
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, values, atol=tolerance)


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
@pytest.mark.parametrize(
    "form", [Form(), Form(coupled=True, peephole=True), Form(False, True, 2, True, True, 0, 0.5, 0.25)]
)
def test_the_backward_cell_starts_at_the_end(form: Form, code: OperandType, tolerance: float) -> None:
    both = Both(form)
    results = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(code), *(output(code) for _ in range(6)))
    check(results, both.expected(BIDIRECTIONAL_SEQUENCE_LSTM_VALUES, BIDIRECTIONAL_SEQUENCE_LSTM_VALUES), tolerance)


def test_batch_major_is_the_transpose_of_time_major() -> None:
    both = Both(Form())
    outputs = [output(F32), output(F32)]
    by_time = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(), *outputs)
    by_batch = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(time_major=False), *outputs)
    check(by_batch, [values.swapaxes(0, 1) for values in by_time])


@pytest.mark.parametrize("states", [0, 4])
def test_merged_outputs_are_joined_along_the_last_axis(states: int) -> None:
    both = Both(Form(projection=2))
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(merged=True), *(output(F32) for _ in range(1 + states))
    )
    forward, backward, *last = both.expected(BIDIRECTIONAL_SEQUENCE_LSTM_VALUES, BIDIRECTIONAL_SEQUENCE_LSTM_VALUES)
    check(results, [np.concatenate([forward, backward], axis=-1), *last[:states]])


@pytest.mark.parametrize("coupled", [False, True])
def test_cross_linked_cells_read_the_auxiliary_input_beside_the_input(coupled: bool) -> None:
    both = Both(Form(coupled=coupled, layer_norm=True, aux=AUX))
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(aux=AUX_VALUES), *(output(F32) for _ in range(6))
    )
    joined = np.concatenate([BIDIRECTIONAL_SEQUENCE_LSTM_VALUES, AUX_VALUES], axis=-1)
    check(results, both.expected(joined, joined))


def test_a_parallel_linked_backward_cell_reads_the_auxiliary_input_instead() -> None:
    both = Both(Form(), backward_input=AUX)
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(aux=AUX_VALUES), *(output(F32) for _ in range(6))
    )
    check(results, both.expected(BIDIRECTIONAL_SEQUENCE_LSTM_VALUES, AUX_VALUES))


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


def test_a_saturated_cell_stays_within_16_bits() -> None:
    def full(shape: tuple[int, ...], value: int, quantization: tuple[float, int]) -> Given:
        return tensor(Q8A, np.full(shape, value), *quantization)

    cell, result = compute(
        OperationType.QUANTIZED_16BIT_LSTM,
        [
            full((1, 2), 255, QUANTIZED_16BIT_LSTM_VALUES),
            *(full((2, 2), 255, WEIGHTS) for _ in range(8)),
            *(tensor(I32, [1 << 20, 1 << 20], WEIGHTS[0] / 128) for _ in range(4)),
            tensor(Q16S, [[32767, 32767]], *CELL),
            full((1, 2), 255, QUANTIZED_16BIT_LSTM_VALUES),
        ],
        output(Q16S, (), *CELL),
        output(Q8A, (), *QUANTIZED_16BIT_LSTM_VALUES),
    )
    np.testing.assert_array_equal(cell, [[32767, 32767]])
    np.testing.assert_array_equal(result, [[255, 255]])


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
