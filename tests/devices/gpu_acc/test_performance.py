from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F16, F32
from nnhal.support import Supported
from nnhal.types import OperandType, OperationType
from nnhal_devices.driver import DriverOptions
from nnhal_devices.gpu_acc.driver import GpuAcc
from nnhal_devices.gpu_acc.optimize import fusions
from nnhal_devices.gpu_acc.performance import ROOFLINE, fused_operation_ns
from tests.support.agreement import like, single
from tests.support.models import Recipe


def _matrix_product(code: OperandType) -> float:
    (cost,) = ROOFLINE.operation_ns(single(OperationType.BATCH_MATMUL, code, [(512, 512), (512, 512)], [False, False]))
    return cost


def test_half_precision_takes_half_the_time() -> None:
    single_, half = (_matrix_product(code) - ROOFLINE.overhead_ns for code in (F32, F16))
    assert single_ == pytest.approx(512**3 / 40)
    assert half == pytest.approx(single_ / 2)


def test_a_fused_activation_takes_no_time_of_its_own() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (1000,))
    total = recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(F32))
    root = recipe.operation(OperationType.SQRT, [recipe.operation(OperationType.RELU, [total], like(F32))], like(F32))
    model = recipe.build(root)
    plain = ROOFLINE.operation_ns(model)
    fused = fused_operation_ns(model, fusions(model))
    assert len(plain) == len(fused) == 3
    assert fused[1] == 0
    assert fused[2] == plain[2]
    assert fused == GpuAcc(DriverOptions()).backend.operation_ns(model)
    assert sum(fused) < sum(plain)


def test_an_activation_behind_what_is_declined_takes_its_own_time() -> None:
    recipe = Recipe()
    image = recipe.input(F32, (1, 0, 0, 3))
    weights, bias = recipe.constant(F32, np.ones((4, 3, 3, 3))), recipe.constant(F32, np.zeros(4))
    same_padding = recipe.integers(1, 1, 1, 0)
    maps = recipe.operation(OperationType.CONV_2D, [image, weights, bias, *same_padding], like(F32))
    model = recipe.build(recipe.operation(OperationType.RELU, [maps], like(F32)))
    driver = GpuAcc(DriverOptions())
    assert [isinstance(answer, Supported) for answer in driver.supported_operations(model)] == [False, True]
    assert fusions(model)
    assert driver.backend.operation_ns(model) == ROOFLINE.operation_ns(model)
