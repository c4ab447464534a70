from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor
from tests.support.rnn import BATCH, INPUT, RELU, expected_sequence, random_cell, values


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
def test_one_step(code: OperandType, tolerance: float) -> None:
    step, cell = values(BATCH, INPUT), random_cell()
    inputs = [tensor(code, step), *(tensor(code, part) for part in cell), *integers(RELU)]
    state, result = compute(OperationType.RNN, inputs, output(code), output(code))
    np.testing.assert_allclose(result, expected_sequence(cell, step[np.newaxis])[1], atol=tolerance)
    np.testing.assert_array_equal(state, result)
