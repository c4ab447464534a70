from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, output, tensor


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
