from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random
from tests.support.models import Recipe, run_on


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


@pytest.mark.parametrize("code", [F32, Q8AS, I32])
@pytest.mark.parametrize(("axis", "shape"), [(0, (3,)), (1, (2, 3)), (-1, (1, 1, 2))])
def test_slices_at_indices_that_a_run_is_given(shape: tuple[int, ...], axis: int, code: OperandType) -> None:
    model = _gathered(code, axis, shape)
    assert_agrees(model, random(code, (4, 4, 4)), np.arange(np.prod(shape), dtype=np.int32).reshape(shape) % 4)


@pytest.mark.parametrize("index", [4, -1, -5, -(2**31)])
def test_a_run_fails_for_indices_that_lie_outside(index: int) -> None:
    model = _gathered(F32, 0, (2,))
    with pytest.raises(HalError):
        run_on(CpuAcc(DriverOptions()), model, random(F32, (4, 4, 4)), np.array([0, index], np.int32))


def _gathered(code: OperandType, axis: int, shape: tuple[int, ...]) -> ResolvedModel:
    recipe, kind = Recipe(), like(code)
    inputs = [
        recipe.input(code, (4, 4, 4), kind.scale, kind.zero_point),
        *recipe.integers(axis),
        recipe.input(I32, shape),
    ]
    return recipe.build(recipe.operation(OperationType.GATHER, inputs, kind))
