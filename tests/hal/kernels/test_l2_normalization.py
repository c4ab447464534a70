from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

L2 = OperationType.L2_NORMALIZATION


@pytest.mark.parametrize("main", [F16, F32])
def test_vectors_of_length_1_along_any_axis(main: OperandType) -> None:
    values = np.array([[3.0, 4.0], [0.0, 0.0]])
    (result,) = compute(L2, [tensor(main, values)], output(main))
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-3)
    (columns,) = compute(L2, [tensor(main, values), *integers(0)], output(main))
    assert columns.tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(("main", "zero"), [(Q8A, 128), (Q8AS, 0)])
def test_quantised_vectors(main: OperandType, zero: int) -> None:
    (result,) = compute(L2, [tensor(main, [[7, 9], [4, 4]], 0.5, 4)], output(main, (), 1 / 128, zero))
    expected = np.round(128 * np.array([[3, 5], [0, 0]]) / np.sqrt(34)) + zero
    np.testing.assert_array_equal(result, expected)


def test_no_elements_give_none() -> None:
    (result,) = compute(L2, [tensor(F32, np.zeros((2, 0)))], output(F32))
    assert result.shape == (2, 0)
