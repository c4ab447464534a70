from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def unary(code: OperationType, values: Any, main: OperandType = F32) -> Array:
    (result,) = compute(code, [tensor(main, values)], output(main))
    return result


@pytest.mark.parametrize("main", [F16, F32])
@pytest.mark.parametrize(
    ("code", "function"),
    [
        (OperationType.ABS, np.abs),
        (OperationType.EXP, np.exp),
        (OperationType.FLOOR, np.floor),
        (OperationType.LOG, np.log),
        (OperationType.NEG, np.negative),
        (OperationType.RSQRT, lambda x: 1 / np.sqrt(x)),
        (OperationType.SIN, np.sin),
        (OperationType.SQRT, np.sqrt),
    ],
)
def test_functions_of_floats(code: OperationType, function: Callable[[Array], Array], main: OperandType) -> None:
    values = np.array([[0.25, 1.5], [2.0, 3.75]])
    np.testing.assert_allclose(unary(code, values, main), function(values), rtol=1e-6 if main == F32 else 1e-3)


def test_floats_answer_with_infinity_and_nan() -> None:
    np.testing.assert_array_equal(unary(OperationType.RSQRT, [0, -1, np.inf]), [np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(unary(OperationType.LOG, [0, -1]), [-np.inf, np.nan])


def test_integers_stay_integers() -> None:
    assert unary(OperationType.ABS, [-(2**24) - 1, 3], I32).tolist() == [2**24 + 1, 3]
    assert unary(OperationType.NEG, [2**24 + 1, -3], I32).tolist() == [-(2**24) - 1, 3]


def test_any_byte_but_0_is_true() -> None:
    assert unary(OperationType.LOGICAL_NOT, [0, 1, 7, 255], B8).tolist() == [1, 0, 0, 0]


def test_hard_swish_is_flat_below_minus_3_and_straight_above_3() -> None:
    np.testing.assert_allclose(
        unary(OperationType.HARD_SWISH, [-4, -3, -1.5, 0, 1.5, 3, 5]), [0, 0, -0.375, 0, 1.125, 3, 5]
    )


def test_quantised_functions_change_the_quantisation() -> None:
    (swish,) = compute(OperationType.HARD_SWISH, [tensor(Q8AS, [-8, -2, 8], 0.5, 2)], output(Q8AS, (), 0.125, -10))
    assert swish.tolist() == [-10, -13, 14]
    (root,) = compute(OperationType.RSQRT, [tensor(Q8A, [3, 4, 5, 8], 0.25, 4)], output(Q8A, (), 0.125, 7))
    assert root.tolist() == [255, 255, 23, 15]


def test_no_elements_give_none() -> None:
    assert unary(OperationType.EXP, np.zeros((0, 3))).shape == (0, 3)
