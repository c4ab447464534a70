from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


@pytest.mark.parametrize(("code", "low"), [(Q8A, 0), (Q8AS, -128)])
@pytest.mark.parametrize(
    ("operation", "function"),
    [(OperationType.ADD, np.add), (OperationType.SUB, np.subtract), (OperationType.MUL, np.multiply)],
)
def test_quantised_results_are_the_real_ones_rounded(
    operation: OperationType, function: Callable[[Array, Array], Array], code: OperandType, low: int
) -> None:
    first, second = np.meshgrid(*[np.arange(low, low + 256, 3)] * 2)
    scales, zero_points = (0.031, 0.0127), (low + 120, low + 131)
    reals = function((first - zero_points[0]) * scales[0], (second - zero_points[1]) * scales[1])
    (result,) = compute(
        operation,
        [tensor(code, v, s, z) for v, s, z in zip((first, second), scales, zero_points, strict=True)] + integers(0),
        output(code, (), 0.05, low + 128),
    )
    steps = reals / 0.05
    clear = np.abs(np.abs(steps) % 1 - 0.5) > 2.0**-6  # what is nearly a half may go either way: it is rounded twice
    expected = np.clip(np.floor(steps + 0.5) + low + 128, low, low + 255)
    np.testing.assert_array_equal(result[clear], expected[clear])
    assert clear.mean() > 0.9


def test_the_activation_clamps_quantised_results() -> None:
    inputs = [tensor(Q8A, [0, 10, 200], 1.0, 10), tensor(Q8A, [10], 1.0, 10), *integers(3)]
    assert compute(OperationType.ADD, inputs, output(Q8A, (), 1.0, 10))[0].tolist() == [10, 10, 16]


def test_integers_divide_towards_minus_infinity() -> None:
    inputs = [tensor(OperandType.TENSOR_INT32, v) for v in ([7, -7, 7, -7], [2, 2, -2, -2])]
    results = compute(OperationType.DIV, [*inputs, *integers(0)], output(OperandType.TENSOR_INT32))
    assert results[0].tolist() == [3, -4, -4, 3]


def test_empty_tensors_broadcast() -> None:
    for code, scale in ((F32, 0.0), (Q8A, 1.0)):
        inputs = [tensor(code, np.zeros((0, 3)), scale), tensor(code, np.zeros((1, 1)), scale), *integers(0)]
        assert compute(OperationType.ADD, inputs, output(code, (), scale))[0].shape == (0, 3)


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


def test_unary_any_byte_but_0_is_true() -> None:
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


@pytest.mark.parametrize("main", [F16, F32])
def test_bases_and_exponents_broadcast(main: OperandType) -> None:
    (result,) = compute(OperationType.POW, [tensor(main, [[4], [-2]]), tensor(main, [2, 0.5, 0])], output(main))
    np.testing.assert_array_equal(result, [[16, 2, 1], [4, np.nan, 1]])


@pytest.mark.parametrize(
    ("code", "expected"), [(OperationType.MAXIMUM, [[1, 4], [3, 4]]), (OperationType.MINIMUM, [[1, 1], [1, 3]])]
)
def test_tensors_broadcast(code: OperationType, expected: list[list[int]]) -> None:
    for main in (F32, I32):
        (result,) = compute(code, [tensor(main, [[1], [3]]), tensor(main, [1, 4])], output(main))
        assert result.tolist() == expected


def test_large_integers_are_exact_whatever_their_scale() -> None:
    first, second = tensor(I32, [2**30 + 1], 0.5), tensor(I32, [2**30], 0.25)
    (result,) = compute(OperationType.MAXIMUM, [first, second], output(I32, (), 0.125))
    assert result.tolist() == [2**30 + 1]


def test_quantised_values_are_compared_and_put_out_as_reals() -> None:
    first, second = tensor(Q8AS, [10, -20], 0.5), tensor(Q8AS, [0, 0], 0.25, -4)  # 5 and -10 against 1
    (result,) = compute(OperationType.MAXIMUM, [first, second], output(Q8AS, (), 0.125, 3))
    assert result.tolist() == [43, 11]
    (saturated,) = compute(OperationType.MINIMUM, [first, second], output(Q8AS, (), 0.03125, 3))
    assert saturated.tolist() == [35, -128]


O = OperationType  # noqa: E741


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (O.EQUAL, [0, 1, 0]),
        (O.GREATER, [0, 0, 1]),
        (O.GREATER_EQUAL, [0, 1, 1]),
        (O.LESS, [1, 0, 0]),
        (O.LESS_EQUAL, [1, 1, 0]),
        (O.NOT_EQUAL, [1, 0, 1]),
    ],
)
def test_each_comparison(code: OperationType, expected: list[int]) -> None:
    large = 2**24  # neighbours that float32 does not tell apart
    (integers,) = compute(code, [tensor(I32, [large, large + 1, large + 2]), tensor(I32, [large + 1])], output(B8))
    assert integers.tolist() == expected
    (floats,) = compute(code, [tensor(F32, [[1.0, 2.0, 3.0]]), tensor(F32, [2.0])], output(B8))
    assert floats.tolist() == [expected]
    # 1.5, 2 and 2.5 against 2
    (quantised,) = compute(code, [tensor(Q8A, [3, 4, 5], 0.5), tensor(Q8A, [138], 0.2, 128)], output(B8))
    assert quantised.tolist() == expected


def test_booleans_compare_by_truth() -> None:
    (result,) = compute(O.EQUAL, [tensor(B8, [0, 1, 255]), tensor(B8, [0, 2, 0])], output(B8))
    assert result.tolist() == [1, 1, 0]


def test_nan_equals_nothing() -> None:
    (result,) = compute(O.EQUAL, [tensor(F32, [float("nan")])] * 2, output(B8))
    assert result.tolist() == [0]


@pytest.mark.parametrize(
    ("code", "expected"),
    [(OperationType.LOGICAL_AND, [[0, 0], [0, 1]]), (OperationType.LOGICAL_OR, [[0, 1], [1, 1]])],
)
def test_logical_any_byte_but_0_is_true(code: OperationType, expected: list[list[int]]) -> None:
    (result,) = compute(code, [tensor(B8, [[0], [2]]), tensor(B8, [0, 4])], output(B8))
    assert result.tolist() == expected


def test_negative_values_are_multiplied_by_their_channel_s_alpha() -> None:
    (result,) = compute(OperationType.PRELU, [tensor(F32, [[-1, -2], [3, -4]]), tensor(F32, [0.5, 2])], output(F32))
    assert result.tolist() == [[-0.5, -4], [3, -8]]


def test_three_quantisations() -> None:
    values, alpha = tensor(Q8A, [124, 132], 0.5, 128), tensor(Q8A, [4, 4], 0.25, 2)  # -2 and 2, times 0.5
    (result,) = compute(OperationType.PRELU, [values, alpha], output(Q8A, (), 0.125, 100))
    np.testing.assert_array_equal(result, [92, 116])


MASK = tensor(B8, [0, 1, 9])


def test_the_mask_decides_element_by_element() -> None:
    large = 2**24 + 1
    inputs = [MASK, tensor(I32, [large, large, large]), tensor(I32, [-large, -large, -large])]
    (result,) = compute(OperationType.SELECT, inputs, output(I32))
    assert result.tolist() == [-large, large, large]


def test_what_is_quantised_in_another_way_is_requantised() -> None:
    inputs = [MASK, tensor(Q8A, [10, 20, 200], 0.5), tensor(Q8A, [10, 20, 30], 0.25, 6)]
    (result,) = compute(OperationType.SELECT, inputs, output(Q8A, (), 0.25, 6))
    assert result.tolist() == [10, 46, 255]
