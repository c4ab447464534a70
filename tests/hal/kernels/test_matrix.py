from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, I32, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor

Q8A = OperandType.TENSOR_QUANT8_ASYMM


def test_the_input_comes_in_rows() -> None:
    values, weights = np.arange(12.0).reshape(1, 2, 3, 2), np.arange(8.0).reshape(2, 4)
    inputs = [
        tensor(F32, values),
        tensor(F32, weights),
        tensor(F32, [1.0, -500.0]),
        *integers(1),
    ]
    expected = np.maximum(values.reshape(3, 4) @ weights.T + [1, -500], 0)
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(F32))[0].tolist() == expected.tolist()


def test_quantised_rows() -> None:
    inputs = [
        tensor(Q8A, [[130, 126]], 0.5, 128),
        tensor(Q8A, [[3, 1], [1, 5]], 2.0, 2),
        tensor(OperandType.TENSOR_INT32, [4, 0], 1.0),
        *integers(0),
    ]
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(Q8A, (), 1.0, 50))[0].tolist() == [[58, 42]]


def test_an_empty_batch_stays_empty() -> None:
    inputs = [
        tensor(F32, np.zeros((0, 4))),
        tensor(F32, np.zeros((5, 4))),
        tensor(F32, np.zeros(5)),
        *integers(0),
    ]
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(F32))[0].shape == (0, 5)


FIRST = np.arange(12).reshape(2, 2, 3)
SECOND = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("main", [F16, F32, I32])
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
def test_either_factor_may_be_transposed(main: OperandType, transpose: tuple[bool, bool]) -> None:
    factors = [m.swapaxes(1, 2) if flag else m for m, flag in zip((FIRST, SECOND), transpose, strict=True)]
    (result,) = compute(
        OperationType.BATCH_MATMUL, [*(tensor(main, m) for m in factors), *map(boolean, transpose)], output(main)
    )
    np.testing.assert_array_equal(result, FIRST @ SECOND)


def test_large_integers_are_exact() -> None:
    inputs = [tensor(I32, [[2**24 + 1]]), tensor(I32, [[3]]), boolean(False), boolean(False)]
    (result,) = compute(OperationType.BATCH_MATMUL, inputs, output(I32))
    assert result.tolist() == [[3 * (2**24 + 1)]]


def test_quantised_products_saturate() -> None:
    first, second = tensor(Q8AS, [[11, -9], [101, 101]], 0.5, 1), tensor(Q8AS, [[2], [4]], 0.25, -2)
    (result,) = compute(
        OperationType.BATCH_MATMUL, [first, second, boolean(False), boolean(False)], output(Q8AS, (), 0.5, 5)
    )
    assert result.tolist() == [[0], [127]]  # 5 * 1 - 5 * 1.5, and 50 * 2.5


def test_no_inner_elements_sum_up_to_nothing() -> None:
    inputs = [tensor(F32, np.zeros((2, 0))), tensor(F32, np.zeros((0, 3))), boolean(False), boolean(False)]
    (result,) = compute(OperationType.BATCH_MATMUL, inputs, output(F32))
    assert result.tolist() == [[0, 0, 0]] * 2
