from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random
from tests.support.models import Recipe


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_tensors_of_one_quantization_are_joined(code: OperandType) -> None:
    assert_single_agrees(OperationType.CONCATENATION, code, [(2, 3, 4), (2, 1, 4), (2, 5, 4)], [1])


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_tensors_of_other_quantization_are_converted(code: OperandType) -> None:
    recipe = Recipe()
    given = like(code)
    inputs = [recipe.input(code, (2, 9), given.scale * (i + 1), given.zero_point + i) for i in range(3)]
    joined = recipe.operation(OperationType.CONCATENATION, [*inputs, *recipe.integers(0)], like(code))
    assert_agrees(recipe.build(joined), *(random(code, (2, 9), seed) for seed in range(3)))


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
def test_tensors_are_stacked(code: OperandType) -> None:
    recipe = Recipe()
    given = like(code)
    axis = recipe.integers(1)
    inputs = [recipe.input(code, (2, 3), given.scale, given.zero_point) for _ in range(3)]
    stacked = recipe.operation(OperationType.PACK, [*axis, *inputs], like(code, (2, 3, 3)))
    assert_agrees(recipe.build(stacked), *(random(code, (2, 3), seed) for seed in range(3)))
