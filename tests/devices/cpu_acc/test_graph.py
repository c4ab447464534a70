from __future__ import annotations

import numpy as np

from nnhal.operations.operand_types import F32, I32, Q8A
from nnhal.resolved import propagate_dimensions
from nnhal.types import Operand, OperationType
from nnhal_devices.cpu_acc.lowered import lower
from tests.support.agreement import assert_agrees, like, random
from tests.support.models import Recipe

_SAME = 1


def test_an_output_may_be_read_on_and_come_out_several_times() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (2, 3))
    first = recipe.operation(OperationType.RELU, [given], like(F32))
    second = recipe.operation(OperationType.ADD, [first, first, *recipe.integers(0)], like(F32))
    assert_agrees(recipe.build(second, first), random(F32, (2, 3)))


def test_outputs_that_one_tensor_holds_are_two_tensors_outside() -> None:
    recipe = Recipe()
    given = recipe.input(Q8A, (4,), 0.02, 0)
    same = Operand(Q8A, (), 0.02, 0)
    clamped = recipe.operation(OperationType.RELU, [given], same)  # zero point 0: nothing is below it
    again = recipe.operation(OperationType.RELU6, [clamped], same)
    first, second = assert_agrees(recipe.build(clamped, again), np.arange(4, dtype=np.uint8))
    np.testing.assert_array_equal(first, second)


def test_a_result_of_constants_only() -> None:
    recipe = Recipe()
    model = recipe.build(recipe.operation(OperationType.NEG, [recipe.constant(F32, [1, -2])], like(F32)))
    (result,) = assert_agrees(model)
    np.testing.assert_array_equal(result, [-1, 2])


def test_moved_and_unmoved_images_meet() -> None:
    """A convolution's result is held with channels first; what reads it wants it in every way there is."""
    recipe = Recipe()
    image = recipe.input(F32, (1, 4, 5, 3))
    weights, bias = recipe.constant(F32, random(F32, (3, 1, 1, 3))), recipe.constant(F32, np.zeros(3))
    convolved = recipe.operation(
        OperationType.CONV_2D, [image, weights, bias, *recipe.integers(_SAME, 1, 1, 0)], like(F32)
    )
    added = recipe.operation(OperationType.ADD, [convolved, image, *recipe.integers(0)], like(F32))
    scaled = recipe.operation(
        OperationType.MUL, [added, recipe.constant(F32, random(F32, (5, 1))), *recipe.integers(0)], like(F32)
    )
    row = recipe.input(F32, (5, 3))
    shifted = recipe.operation(OperationType.SUB, [row, scaled, *recipe.integers(0)], like(F32))
    flat = recipe.operation(OperationType.RESHAPE, [convolved, recipe.constant(I32, [4, -1])], like(F32))
    assert_agrees(recipe.build(shifted, flat, convolved), random(F32, (1, 4, 5, 3)), random(F32, (5, 3), seed=1))


def test_equal_operations_and_equal_small_constants_are_one_node_and_one_tensor() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (2, 3))
    results = [
        recipe.operation(OperationType.RELU6, [recipe.operation(OperationType.ABS, [given], like(F32))], like(F32))
        for _ in range(2)
    ]
    model = recipe.build(*results)
    graph = lower(model, propagate_dimensions(model))
    assert [node.type for node in graph.nodes] == ["Abs", "Clip", "Identity"]
    assert sorted(values.item() for values in graph.constants.values()) == [0, 6]
    assert_agrees(model, random(F32, (2, 3)))


def test_an_output_may_come_out_three_times() -> None:
    recipe = Recipe()
    given = recipe.input(Q8A, (4,), 0.02, 0)
    same = Operand(Q8A, (), 0.02, 0)
    outputs = [recipe.operation(OperationType.RELU, [given], same) for _ in range(3)]
    for result in assert_agrees(recipe.build(*outputs), np.arange(4, dtype=np.uint8)):
        np.testing.assert_array_equal(result, np.arange(4))
