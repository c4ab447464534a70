from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.resolved import propagate_dimensions
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.lowering import lower
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random
from tests.support.models import Recipe

_COMPARISONS = [
    OperationType.EQUAL,
    OperationType.GREATER,
    OperationType.GREATER_EQUAL,
    OperationType.LESS,
    OperationType.LESS_EQUAL,
    OperationType.NOT_EQUAL,
]


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("activation", [0, 1, 2, 3])
@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.SUB, OperationType.MUL])
def test_arithmetic_broadcasts_and_clamps(operation: OperationType, activation: int, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(2, 1, 5), (4, 5)], [activation], like(code, scale=_scale(code)))


def _scale(code: OperandType) -> float:
    return 0.07 if code in (Q8A, Q8AS) else 0.0


@pytest.mark.parametrize("operation", [OperationType.ADD, OperationType.SUB, OperationType.MUL])
def test_arithmetic_on_integers(operation: OperationType) -> None:
    assert_single_agrees(operation, I32, [(3, 4), (4,)], [0])


def test_division_of_floats() -> None:
    assert_single_agrees(OperationType.DIV, F32, [(3, 4), (4,)], [0])


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.MAXIMUM, OperationType.MINIMUM])
def test_extremes(operation: OperationType, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(3, 4), (4,)], [], like(code, scale=_scale(code)))


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_a_slope_for_negative_values(code: OperandType) -> None:
    assert_single_agrees(OperationType.PRELU, code, [(1, 3, 4, 5), (5,)], [], like(code, scale=_scale(code)))


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("slope", [0.25, -0.5, 1.5])
def test_one_constant_slope_for_all_is_a_leaky_relu(code: OperandType, slope: float) -> None:
    recipe, operand = Recipe(), like(code, scale=0.05 if code in (Q8A, Q8AS) else None)
    given = recipe.input(code, (1, 3, 4, 5), operand.scale, operand.zero_point)
    kept = round(slope / operand.scale) + operand.zero_point if operand.scale else slope
    slopes = recipe.constant(code, np.full((1, 1, 5), kept), operand.scale, operand.zero_point)
    model = recipe.build(recipe.operation(OperationType.PRELU, [given, slopes], operand))
    assert_agrees(model, random(code, (1, 3, 4, 5)))
    nodes = [node.type for node in lower(model, propagate_dimensions(model)).nodes]
    assert "LeakyRelu" in nodes
    assert "PRelu" not in nodes


def test_powers() -> None:
    recipe = Recipe()
    base, exponent = recipe.input(F32, (2, 3)), recipe.constant(F32, [2, 0.5, 3])
    model = recipe.build(recipe.operation(OperationType.POW, [base, exponent], like(F32)))
    assert_agrees(model, np.abs(random(F32, (2, 3))))


@pytest.mark.parametrize("code", [F32, I32, Q8A, Q8AS])
@pytest.mark.parametrize("operation", _COMPARISONS)
def test_comparisons(operation: OperationType, code: OperandType) -> None:
    recipe = Recipe()
    same = like(code)
    first, second = (recipe.input(code, (3, 4), same.scale, same.zero_point) for _ in range(2))
    model = recipe.build(recipe.operation(operation, [first, second], like(B8)))
    values = random(code, (3, 4))
    assert_agrees(model, values, np.where(np.eye(3, 4), values, random(code, (3, 4), seed=1)))


@pytest.mark.parametrize("operation", [OperationType.LOGICAL_AND, OperationType.LOGICAL_OR, OperationType.EQUAL])
def test_logic_takes_any_byte_that_is_not_zero_for_true(operation: OperationType) -> None:
    recipe = Recipe()
    inputs = [recipe.input(B8, (4,)) for _ in range(2)]
    model = recipe.build(recipe.operation(operation, inputs, like(B8)))
    assert_agrees(model, np.array([0, 1, 0, 255], np.uint8), np.array([0, 0, 1, 2], np.uint8))


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
def test_a_mask_selects(code: OperandType) -> None:
    recipe = Recipe()
    usual = like(code)
    mask = recipe.input(B8, (3, 4))
    tensors = [recipe.input(code, (3, 4), usual.scale * (1 + i), usual.zero_point) for i in range(2)]
    model = recipe.build(recipe.operation(OperationType.SELECT, [mask, *tensors], like(code)))
    assert_agrees(model, random(B8, (3, 4)), random(code, (3, 4), 1), random(code, (3, 4), 2))
