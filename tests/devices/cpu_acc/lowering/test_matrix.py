from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random
from tests.support.models import Recipe


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("dimensions", [(4, 6), (2, 3, 2, 2)])
@pytest.mark.parametrize("activation", [0, 1])
def test_rows_times_weights(activation: int, dimensions: Dimensions, code: OperandType) -> None:
    recipe = Recipe()
    given = like(code)
    scale = 0.02 if given.scale else 0.0
    product = float(np.float32(given.scale) * np.float32(scale))
    bias_code = I32 if given.scale else code
    rows = recipe.input(code, dimensions, given.scale, given.zero_point)
    weights = recipe.constant(code, random(code, (5, 6), seed=1), scale, given.zero_point)
    bias = recipe.constant(bias_code, random(bias_code, (5,), seed=2), product)
    output = like(code, scale=0.9 if given.scale else 0.0)
    inputs = [rows, weights, bias, *recipe.integers(activation)]
    model = recipe.build(recipe.operation(OperationType.FULLY_CONNECTED, inputs, output))
    assert_agrees(model, random(code, dimensions))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_of_bytes_are_summed_up_exactly(sign: int) -> None:
    size = 256
    recipe = Recipe()
    rows = recipe.input(Q8A, (1, size), 1.0, 0)
    weights = recipe.constant(Q8A, np.full((3, size), 128 + 127 * sign), 1.0, 128)
    bias = recipe.constant(I32, np.zeros(3), 1.0)
    output = like(Q8A, scale=float(255 * 127 * size / 100))
    inputs = [rows, weights, bias, *recipe.integers(0)]
    model = recipe.build(recipe.operation(OperationType.FULLY_CONNECTED, inputs, output))
    (result,) = assert_agrees(model, np.full((1, size), 255, np.uint8))
    assert set(result.flat) == {117 + 100 * sign}


@pytest.mark.parametrize("code", [F32, F16, I32, Q8AS])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_products_of_matrices(transposed: tuple[bool, bool], code: OperandType) -> None:
    first = (2, 4, 3) if transposed[0] else (2, 3, 4)
    second = (2, 5, 4) if transposed[1] else (2, 4, 5)
    output = like(code, scale=1.0 if code == Q8AS else 0.0)
    assert_single_agrees(OperationType.BATCH_MATMUL, code, [first, second], transposed, output)
