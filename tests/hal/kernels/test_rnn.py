from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations.operand_types import F16, F32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import absent, integers, output, tensor

RNG = np.random.default_rng(5)
BATCH, INPUT, FILTERS, MEMORY, TIME = 2, 3, 4, 3, 6
NO_ACTIVATION, RELU = 0, 1


def values(*shape: int) -> Array:
    return np.round(RNG.normal(0, 0.5, shape) * 64) / 64


SEQUENCE, FEATURE, TIMING = (
    values(TIME, BATCH, INPUT),
    values(FILTERS, INPUT),
    values(FILTERS, MEMORY),
)


def run(code: OperandType, rank: int, bias: Array | None, activation: int) -> Array:
    """The outputs over time, each step fed the state of the one before."""
    state: Array = np.zeros((BATCH, MEMORY * FILTERS))
    outputs = []
    for step in SEQUENCE:
        given = absent(code) if bias is None else tensor(code, bias)
        inputs = [tensor(code, part) for part in (step, FEATURE, TIMING)]
        state, result = compute(
            OperationType.SVDF,
            [*inputs, given, tensor(code, state), *integers(rank, activation)],
            output(code),
            output(code),
        )
        outputs.append(result)
    return np.array(outputs)


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 5e-3)])
@pytest.mark.parametrize("rank", [1, 2])
def test_filters_weigh_the_latest_features_by_time(rank: int, code: OperandType, tolerance: float) -> None:
    bias = values(FILTERS // rank)
    features = np.concatenate([np.zeros((MEMORY - 1, BATCH, FILTERS)), SEQUENCE @ FEATURE.T])
    filtered = sum(features[delay : delay + TIME] * TIMING[:, delay] for delay in range(MEMORY))
    expected = np.asarray(filtered).reshape(TIME, BATCH, -1, rank).sum(axis=-1)
    np.testing.assert_allclose(run(code, rank, None, NO_ACTIVATION), expected, atol=tolerance)
    np.testing.assert_allclose(run(code, rank, bias, RELU), np.maximum(expected + bias, 0), atol=tolerance)


def test_the_newest_place_of_the_state_is_free_between_steps() -> None:
    state = values(BATCH, FILTERS, MEMORY)
    inputs = [tensor(F32, part) for part in (SEQUENCE[0], FEATURE, TIMING)]
    after, _ = compute(
        OperationType.SVDF,
        [*inputs, absent(F32), tensor(F32, state.reshape(BATCH, -1)), *integers(1, NO_ACTIVATION)],
        output(F32),
        output(F32),
    )
    shifted = after.reshape(BATCH, FILTERS, MEMORY)
    np.testing.assert_array_equal(shifted[..., :-2], state[..., 1:-1])
    np.testing.assert_allclose(shifted[..., -2], SEQUENCE[0] @ FEATURE.T, atol=1e-6)
    assert not shifted[..., -1].any()
