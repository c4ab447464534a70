from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.lstm import BATCH, FORMS, INPUT, UNITS, Form, as_givens, expected_sequence, random_weights
from tests.support.operations import Given, boolean, integers, output, scalar, tensor

RNG = np.random.default_rng(2)
TIME = 4
VALUES = np.round(RNG.normal(0, 1, (TIME, BATCH, INPUT)) * 64) / 64
TANH = 4


def sequence_inputs(code: OperandType, form: Form, state: Array, memory: Array, time_major: bool) -> list[Given]:
    weights = random_weights(form)
    real = FLOAT16 if code == F16 else FLOAT32
    return [
        tensor(code, VALUES if time_major else VALUES.swapaxes(0, 1)),
        *weights.givens(code),
        tensor(code, state),
        tensor(code, memory),
        *integers(TANH),
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
    state = np.round(RNG.normal(0, 0.5, (BATCH, form.output_size)) * 64) / 64
    memory = np.round(RNG.normal(0, 0.5, (BATCH, UNITS)) * 64) / 64
    results = compute(
        OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        sequence_inputs(code, form, state, memory, time_major),
        *(output(code) for _ in range(3)),
    )
    outputs, last, cell = expected_sequence(random_weights(form), VALUES, state, memory)
    np.testing.assert_allclose(results[0] if time_major else results[0].swapaxes(0, 1), outputs, atol=tolerance)
    np.testing.assert_allclose(results[1], last, atol=tolerance)
    np.testing.assert_allclose(results[2], cell, atol=tolerance)


def test_the_states_need_not_be_asked_for() -> None:
    zero = np.zeros((BATCH, UNITS))
    inputs = sequence_inputs(F32, Form(), zero, zero, True)
    results = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, output(F32))
    assert [result.shape for result in results] == [(TIME, BATCH, UNITS)]
