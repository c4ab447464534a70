from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.lstm import BATCH, FORMS, INPUT, UNITS, Form, as_givens, expected_step, random_weights, sigmoid
from tests.support.operations import Given, integers, output, scalar, tensor

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
