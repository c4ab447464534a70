from __future__ import annotations

from nnhal.operations._types import F32
from nnhal.types import OperationType
from nnhal_devices.backend import OptimizationViews, Substitution
from nnhal_devices.gpu_acc.optimize import optimize
from tests.support.agreement import like
from tests.support.models import Recipe


def test_each_operation_is_substituted_or_untouched() -> None:
    recipe = Recipe()
    given, none = recipe.input(F32, (3,)), recipe.integers(0)
    root = recipe.operation(OperationType.SQRT, [given], like(F32))
    product = recipe.operation(OperationType.MUL, [root, given, *none], like(F32))
    total = recipe.operation(OperationType.ADD, [product, given, *none], like(F32))
    views = optimize(recipe.build(product, recipe.operation(OperationType.RELU6, [total], like(F32))))
    assert views == OptimizationViews((Substitution((2, 3), "ADD + RELU6 fused"),), untouched=(0, 1))
