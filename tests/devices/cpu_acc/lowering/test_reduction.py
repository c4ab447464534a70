from __future__ import annotations

import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_single_agrees, like

_AXES = [[1, 2], [2, 3], [-1], [0, 1, 2, 3], [3, -2, 3]]


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("axes", _AXES)
@pytest.mark.parametrize("keep", [0, 1])
def test_means(keep: int, axes: list[int], code: OperandType) -> None:
    assert_single_agrees(OperationType.MEAN, code, [(2, 3, 4, 5)], [axes, keep])


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("axes", _AXES)
@pytest.mark.parametrize("operation", [OperationType.REDUCE_MAX, OperationType.REDUCE_MIN])
def test_extremes(operation: OperationType, axes: list[int], code: OperandType) -> None:
    assert_single_agrees(operation, code, [(2, 3, 4, 5)], [axes, False])


@pytest.mark.parametrize("operation", [OperationType.REDUCE_ALL, OperationType.REDUCE_ANY])
@pytest.mark.parametrize("keep", [False, True])
def test_truth(keep: bool, operation: OperationType) -> None:
    assert_single_agrees(operation, B8, [(4, 3, 2)], [[2], keep])


@pytest.mark.parametrize("operation", [OperationType.REDUCE_SUM, OperationType.REDUCE_PROD])
@pytest.mark.parametrize("keep", [False, True])
def test_sums_and_products(keep: bool, operation: OperationType) -> None:
    assert_single_agrees(operation, F32, [(2, 3, 2)], [[0, 2], keep])


@pytest.mark.parametrize("code", [F32, I32, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.ARGMAX, OperationType.ARGMIN])
@pytest.mark.parametrize("axis", [0, -1])
def test_places_of_extremes(axis: int, operation: OperationType, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(3, 70, 4)], [axis], like(I32))
    assert_single_agrees(operation, code, [(70,)], [axis], like(I32))
