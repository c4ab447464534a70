from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations.operand_types import F16, F32, I32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

PROBABILITIES = np.array([[0.1, 0.2, 0.7, 0.0], [0.25, 0.25, 0.25, 0.25]])


def drawn(samples: int, seeds: tuple[int, int], main: OperandType = F32) -> Array:
    with np.errstate(divide="ignore"):
        logits = np.log(PROBABILITIES) + 5  # unnormalised
    inputs = [tensor(main, logits), *integers(samples), tensor(I32, seeds)]
    (result,) = compute(OperationType.RANDOM_MULTINOMIAL, inputs, output(I32))
    return result


@pytest.mark.parametrize("main", [F16, F32])
def test_classes_come_as_often_as_they_are_probable(main: OperandType) -> None:
    samples = drawn(20_000, (37, -42), main)
    frequencies = [np.bincount(row, minlength=4) / 20_000 for row in samples]
    np.testing.assert_allclose(frequencies, PROBABILITIES, atol=0.02)
    assert frequencies[0][3] == 0


def test_seeds_fix_the_draws_unless_both_are_0() -> None:
    np.testing.assert_array_equal(drawn(50, (1, 2)), drawn(50, (1, 2)))
    assert (drawn(50, (1, 2)) != drawn(50, (2, 1))).any()
    assert (drawn(50, (0, 0)) != drawn(50, (0, 0))).any()
