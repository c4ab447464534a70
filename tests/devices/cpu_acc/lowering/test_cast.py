from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q8C, Q8S
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random
from tests.support.models import Recipe


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("asked", [Q8A, Q8AS])
def test_floats_are_quantized(asked: OperandType, code: OperandType) -> None:
    assert_single_agrees(OperationType.QUANTIZE, code, [(3, 50)], [], like(asked))


@pytest.mark.parametrize("code", [Q8A, Q8AS, Q8S])
@pytest.mark.parametrize("asked", [F32, F16])
def test_bytes_become_the_reals_that_they_stand_for(asked: OperandType, code: OperandType) -> None:
    assert_single_agrees(OperationType.DEQUANTIZE, code, [(3, 50)], [], like(asked))


def test_each_channel_has_its_scale() -> None:
    recipe = Recipe()
    values = random(Q8C, (4, 3))
    weights = recipe.constant(Q8C, values, channels=ChannelQuant((0.5, 0.25, 2.0), 1))
    reals = recipe.operation(OperationType.DEQUANTIZE, [weights], like(F32))
    (result,) = assert_agrees(recipe.build(reals))
    np.testing.assert_array_equal(result, values * np.array([0.5, 0.25, 2.0], np.float32))


@pytest.mark.parametrize(
    ("code", "asked"), [(F32, F32), (F32, Q8A), (I32, F32), (I32, Q8A), (Q8A, F32), (Q8A, I32), (B8, B8), (Q8AS, Q8AS)]
)
def test_numbers_change_their_type(code: OperandType, asked: OperandType) -> None:
    scale, zero_point = like(asked).scale, like(asked).zero_point
    recipe = Recipe()
    given = recipe.input(code, (3, 50), like(code).scale, like(code).zero_point)
    model = recipe.build(recipe.operation(OperationType.CAST, [given], Operand(asked, (), scale, zero_point)))
    values = random(code, (3, 50))
    assert_agrees(model, values * 9 if code in (F32, I32) else values)


def test_a_coarse_quantization_in_between_is_part_of_the_model() -> None:
    recipe = Recipe()
    reals = recipe.input(F32, (256,))
    for scale in (0.1, 0.01):
        stored = recipe.operation(OperationType.QUANTIZE, [reals], Operand(Q8A, (), scale, 128))
        reals = recipe.operation(OperationType.DEQUANTIZE, [stored], Operand(F32))
    assert_agrees(recipe.build(reals), random(F32, (256,)))
