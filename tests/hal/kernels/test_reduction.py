from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor


def reduced(
    code: OperationType, main: OperandType, values: Any, axes: list[int], keep: bool = False, scale: float = 0.0
) -> Array:
    inputs = [tensor(main, values, scale), tensor(I32, axes), boolean(keep)]
    (result,) = compute(code, inputs, output(main, (), scale))
    return result


@pytest.mark.parametrize("main", [F16, F32])
def test_floats_along_any_axes(main: OperandType) -> None:
    values = np.array([[[1, 2], [3, 4], [5, 6]], [[-1, -2], [0, 1], [2, 0.5]]])
    for code, function in (
        (OperationType.REDUCE_SUM, np.sum),
        (OperationType.REDUCE_PROD, np.prod),
        (OperationType.REDUCE_MAX, np.max),
        (OperationType.REDUCE_MIN, np.min),
    ):
        np.testing.assert_allclose(reduced(code, main, values, [1, -1]), function(values, axis=(1, 2)))
        np.testing.assert_allclose(reduced(code, main, values, [0], keep=True), function(values, axis=0, keepdims=True))
        assert reduced(code, main, values, [0, 1, 2]).shape == (1,)


def test_bytes_keep_their_values() -> None:
    values = [[3, 200], [7, 100]]
    assert reduced(OperationType.REDUCE_MAX, Q8A, values, [0], scale=0.5).tolist() == [7, 200]
    assert reduced(OperationType.REDUCE_MIN, Q8AS, [[3, -100], [7, 100]], [1], scale=0.5).tolist() == [-100, 7]


def test_booleans_come_out_as_0_and_1() -> None:
    values = [[0, 2], [3, 4], [0, 0]]
    assert reduced(OperationType.REDUCE_ALL, B8, values, [1]).tolist() == [0, 1, 0]
    assert reduced(OperationType.REDUCE_ANY, B8, values, [1]).tolist() == [1, 1, 0]


def test_no_axes_reduce_nothing() -> None:
    assert reduced(OperationType.REDUCE_ANY, B8, [[0, 2]], []).tolist() == [[0, 1]]
    assert reduced(OperationType.REDUCE_SUM, F32, [[0, 2]], []).tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("code", "main", "expected"),
    [
        (OperationType.REDUCE_ALL, B8, 1),
        (OperationType.REDUCE_ANY, B8, 0),
        (OperationType.REDUCE_MAX, F32, -np.inf),
        (OperationType.REDUCE_MIN, Q8AS, 127),
        (OperationType.REDUCE_PROD, F32, 1),
        (OperationType.REDUCE_SUM, F16, 0),
    ],
)
def test_no_elements_reduce_to_what_changes_nothing(code: OperationType, main: OperandType, expected: float) -> None:
    scale = 0.5 if main == Q8AS else 0.0
    assert reduced(code, main, np.zeros((0, 2)), [0], scale=scale).tolist() == [expected, expected]


VALUES = np.arange(12.0).reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ([1, -2], 0, VALUES.mean(axis=1)),
        ([0, 2], 1, VALUES.mean(axis=(0, 2), keepdims=True)),
        ([], 0, VALUES),
        ([0, 1, 2], 0, np.array([5.5])),
    ],
)
def test_axes_are_averaged(axes: list[int], keep: int, expected: Array) -> None:
    for code in (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16):
        inputs = [tensor(code, VALUES), tensor(I32, np.array(axes, np.int32)), *integers(keep)]
        assert compute(OperationType.MEAN, inputs, output(code))[0].tolist() == expected.tolist()


def test_quantised_averages_round_half_away() -> None:
    code = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    inputs = [tensor(code, [[1, 2], [-1, -2], [127, 126]], 0.5, 4), tensor(I32, [1]), *integers(0)]
    assert compute(OperationType.MEAN, inputs, output(code, (), 0.5, 4))[0].tolist() == [2, -2, 127]


@pytest.mark.parametrize(("main", "scale"), [(F16, 0), (F32, 0), (I32, 0), (Q8A, 0.5), (Q8AS, 0.5)])
def test_the_first_of_equal_elements_counts(main: OperandType, scale: float) -> None:
    values = tensor(main, [[2, 9, 9], [5, 1, 1]], scale)
    (largest,) = compute(OperationType.ARGMAX, [values, *integers(-1)], output(I32))
    (smallest,) = compute(OperationType.ARGMIN, [values, *integers(1)], output(I32))
    (column,) = compute(OperationType.ARGMAX, [values, *integers(0)], output(I32))
    assert (largest.tolist(), smallest.tolist(), column.tolist()) == ([1, 0], [0, 1], [1, 0, 0])


def test_a_vector_has_one_index() -> None:
    (result,) = compute(OperationType.ARGMIN, [tensor(F32, [3, 1, 2]), *integers(0)], output(I32))
    assert result.tolist() == [1]


@pytest.mark.parametrize(("main", "scale"), [(F16, 0), (F32, 0), (I32, 0), (Q8A, 0.5), (Q8AS, 0.5)])
def test_of_equal_elements_the_last_comes_first(main: OperandType, scale: float) -> None:
    inputs = [tensor(main, [[3, 9, 3, 9], [1, 2, 3, 4]], scale), *integers(3)]
    values, indices = compute(OperationType.TOPK_V2, inputs, output(main, (), scale), output(I32))
    assert values.tolist() == [[9, 9, 3], [4, 3, 2]]
    assert indices.tolist() == [[3, 1, 2], [3, 2, 1]]
