from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, I32
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import like, random
from tests.support.models import Recipe, run_on


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
