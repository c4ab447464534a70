from __future__ import annotations

import numpy as np
import pytest

from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.agreement import like, single
from tests.support.models import Recipe
from tests.support.npu import TYPES, assert_limit, is_taken

CONSTANT = "a constant of one value, or of one for each channel"
IMAGE = (1, 4, 4, 3)

pytestmark = pytest.mark.parametrize("code", TYPES)


def of_two(code: OperandType, operation: OperationType, second: Dimensions) -> ResolvedModel:
    return single(operation, code, [IMAGE, second], [0], like(code, scale=1.0))


def with_constant(
    code: OperandType, operation: OperationType, dimensions: Dimensions, first: bool = False, scale: float = 1.0
) -> ResolvedModel:
    recipe, usual = Recipe(), like(code)
    given = recipe.input(code, IMAGE, usual.scale, usual.zero_point)
    constant = recipe.constant(code, np.zeros(dimensions), 10.0, usual.zero_point)
    inputs = [constant, given] if first else [given, constant]
    return recipe.build(
        recipe.operation(operation, [*inputs, *recipe.integers(0)], Operand(code, (), scale, usual.zero_point))
    )


def test_the_sum_of_two_tensors_alike(code: OperandType) -> None:
    got = "a tensor of [1, 4, 4, 3] and a tensor of [1, 1, 1, 3]"
    inside, outside = of_two(code, OperationType.ADD, IMAGE), of_two(code, OperationType.ADD, (1, 1, 1, 3))
    assert_limit(inside, outside, "SHAPE", got, f"equal dimensions, or {CONSTANT}")


@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.MUL])
@pytest.mark.parametrize("dimensions", [(1,), (3,), (1, 1, 1, 3)])
@pytest.mark.parametrize("first", [False, True])
def test_constants_for_channels(
    code: OperandType, operation: OperationType, dimensions: Dimensions, first: bool
) -> None:
    assert is_taken(with_constant(code, operation, dimensions, first))


def test_constants_that_are_not_for_channels(code: OperandType) -> None:
    inside, outside = (with_constant(code, OperationType.ADD, dims) for dims in ((1, 1, 3), (1, 4, 1)))
    got = "a tensor of [1, 4, 4, 3] and a constant of [1, 4, 1]"
    assert_limit(inside, outside, "SHAPE", got, f"equal dimensions, or {CONSTANT}")


def test_products_are_with_constants(code: OperandType) -> None:
    got = "a tensor of [1, 4, 4, 3] and a tensor of [1, 4, 4, 3]"
    inside, outside = with_constant(code, OperationType.MUL, (3,)), of_two(code, OperationType.MUL, IMAGE)
    assert_limit(inside, outside, "CONSTANT", got, f"a tensor and {CONSTANT}")


def test_values_grow_by_128_at_most(code: OperandType) -> None:
    inside, outside = (with_constant(code, OperationType.ADD, (3,), scale=scale) for scale in (10 / 128, 0.04))
    assert_limit(inside, outside, "QUANT", "scale of input 1 / output scale = 250", "at most 128")
