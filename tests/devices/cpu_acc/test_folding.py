"""Limits of what ONNX Runtime computes while it compiles a model."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.folding import MOST_RESULTS, folds
from nnhal_frontends.onnx import import_onnx
from tests.support.models import Recipe
from tests.support.onnx_models import onnx_model, resolved

F32 = OperandType.TENSOR_FLOAT32
MEBIBYTE = 1 << 20


def tiled(count: int, size: int) -> ResolvedModel:
    """Return a model that adds ``count`` constants of so many bytes to its input, each of which TILE makes."""
    recipe = Recipe()
    value = recipe.input(F32, (1,))
    for number in range(count):
        one = recipe.constant(F32, np.full(1, number, np.float32))
        times = recipe.constant(OperandType.TENSOR_INT32, [size // 4])
        constant = recipe.operation(OperationType.TILE, [one, times], Operand(F32, (size // 4,)))
        value = recipe.operation(OperationType.ADD, [value, constant, *recipe.integers(0)], Operand(F32))
    return recipe.build(value)


@pytest.mark.parametrize(("count", "size", "expected"), [(3, MEBIBYTE, True), (5, 64 * MEBIBYTE, False)])
def test_constants_are_computed_if_all_of_them_fit(count: int, size: int, expected: bool) -> None:
    model = tiled(count, size)
    assert folds(model, propagate_dimensions(model)) is expected


def test_a_single_large_result_does_not_keep_others_from_being_computed() -> None:
    model = tiled(1, 2 * MOST_RESULTS)  # ONNX Runtime leaves it out by itself
    assert folds(model, propagate_dimensions(model))


@pytest.mark.parametrize(("doublings", "expected"), [(10, True), (20, False)])
def test_constants_inside_a_message_count(doublings: int, expected: bool) -> None:
    nodes = [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(doublings)]
    nodes.append(helper.make_node("ReduceSum", [f"c{doublings}"], ["s"], keepdims=0))
    nodes.append(helper.make_node("Add", ["x", "s"], ["y"]))
    content = onnx_model(nodes, {"x": [4]}, ["y"], {"c0": np.zeros((1, 1024), np.float32)}, opset=17)
    model = resolved(import_onnx(content, as_one=True).model)
    assert folds(model, propagate_dimensions(model)) is expected
