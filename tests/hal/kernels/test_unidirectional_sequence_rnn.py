from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor
from tests.support.rnn import BATCH, INPUT, RELU, TIME, expected_sequence, random_cell, values

SEQUENCE, CELL = values(TIME, BATCH, INPUT), random_cell()


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 4e-3)])
def test_the_cell_runs_through_time(code: OperandType, tolerance: float, time_major: bool) -> None:
    sequence = SEQUENCE if time_major else SEQUENCE.swapaxes(0, 1)
    inputs = [tensor(code, sequence), *(tensor(code, part) for part in CELL), *integers(RELU, int(time_major))]
    outputs, state = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs, output(code), output(code))
    expected, last = expected_sequence(CELL, SEQUENCE)
    np.testing.assert_allclose(outputs if time_major else outputs.swapaxes(0, 1), expected, atol=tolerance)
    np.testing.assert_allclose(state, last, atol=tolerance)
    (alone,) = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs, output(code))
    np.testing.assert_array_equal(alone, outputs)
