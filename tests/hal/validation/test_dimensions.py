"""Dimensions and parameters that contradict one another are refused before a device sees the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, I32
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.types.layout import MAX_RANK, Dimensions
from nnhal.validation import validate_dimensions
from tests.support.models import Recipe
from tests.support.refusals import INVALID, refusal
from tests.support.subgraphs import Program, branches

FLOATS = Operand(F32)


def check(model: Model) -> None:
    validate_dimensions(ResolvedModel(model, inline_constants(model)))


def added(first: Dimensions, second: Dimensions, declared: Dimensions) -> ResolvedModel:
    """An ADD whose output is declared with some dimensions."""
    recipe = Recipe()
    inputs = [recipe.input(F32, first), recipe.input(F32, second), *recipe.integers(0)]
    return recipe.build(recipe.operation(OperationType.ADD, inputs, replace(FLOATS, dimensions=declared)))


def made(operation: OperationType, given: Dimensions, vector: list[int], declared: Dimensions) -> ResolvedModel:
    """An operation on a tensor and a constant vector."""
    recipe = Recipe()
    inputs = [recipe.input(F32, given), recipe.constant(I32, vector)]
    return recipe.build(recipe.operation(operation, inputs, replace(FLOATS, dimensions=declared)))


@pytest.mark.parametrize("declared", [(3,), (2, 1), (1, 2), (0, 2)])
def test_an_output_with_other_dimensions_than_the_operation_makes_is_refused(declared: Dimensions) -> None:
    words = r"operation 0 \(ADD\): output 0 has dimensions \[2\], the model says"
    refusal(lambda: validate_dimensions(added((2,), (2,), declared)), INVALID, words)


def test_inputs_that_do_not_fit_one_another_are_refused() -> None:
    words = r"operation 0 \(ADD\): inputs of \[2\] and \[3\] do not broadcast"
    refusal(lambda: validate_dimensions(added((2,), (3,), ())), INVALID, words)


@pytest.mark.parametrize(
    ("first", "second", "declared"),
    [((2,), (2,), ()), ((2,), (2,), (0,)), ((), (2,), (7,)), ((0,), (2,), (2,)), ((0, 2), (1, 2), (5, 2))],
)
def test_what_is_unknown_contradicts_nothing(first: Dimensions, second: Dimensions, declared: Dimensions) -> None:
    validate_dimensions(added(first, second, declared))


def test_a_length_of_0_is_none_of_the_lengths_that_are_declared() -> None:
    words = r"operation 0 \(TILE\): output 0 has dimensions \[0, 3\], the model says \[4, 3\]"
    refusal(lambda: validate_dimensions(made(OperationType.TILE, (2, 3), [0, 1], (4, 3))), INVALID, words)
    validate_dimensions(made(OperationType.TILE, (2, 3), [0, 1], (0, 3)))


def test_contradictions_after_what_earlier_operations_make_are_found() -> None:
    recipe = Recipe()
    given, other = recipe.input(F32, (2, 3)), recipe.input(F32, (5,))
    between = recipe.operation(OperationType.TRANSPOSE, [given, recipe.constant(I32, [1, 0])], FLOATS)
    model = recipe.build(recipe.operation(OperationType.MUL, [between, other, *recipe.integers(0)], FLOATS))
    words = r"operation 1 \(MUL\): inputs of \[3, 2\] and \[5\] do not broadcast"
    refusal(lambda: validate_dimensions(model), INVALID, words)


def test_results_of_too_many_bytes_or_axes_are_refused() -> None:
    large = made(OperationType.TILE, (1 << 20,), [1 << 20], ())
    refusal(
        lambda: validate_dimensions(large), INVALID, "output 0 takes 4398046511104 bytes, expected at most 4294967295"
    )
    deep = made(OperationType.RESHAPE, (1,), [1] * (MAX_RANK + 1), ())
    refusal(
        lambda: validate_dimensions(deep), INVALID, f"output 0 has rank {MAX_RANK + 1}, expected at most {MAX_RANK}"
    )


def test_more_parameters_than_any_rank_needs_are_refused() -> None:
    words = r"operation 0 \(FILL\): input 0 has 65 elements, expected at most 64"
    recipe = Recipe()
    inputs = [recipe.constant(I32, [1] * 65), recipe.constant(OperandType.FLOAT32, 0.5)]
    model = recipe.build(recipe.operation(OperationType.FILL, inputs, FLOATS))
    refusal(lambda: validate_dimensions(model), INVALID, words)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_constant_index_outside_its_axis_is_refused(index: int) -> None:
    recipe = Recipe()
    inputs = [recipe.constant(I32, [0, index]), recipe.input(F32, (3, 2))]
    model = recipe.build(recipe.operation(OperationType.EMBEDDING_LOOKUP, inputs, FLOATS))
    words = rf"operation 0 \(EMBEDDING_LOOKUP\): lookups: index {index}, expected one in \[0, 3\)"
    refusal(lambda: validate_dimensions(model), INVALID, words)


def test_outputs_whose_number_only_values_tell_are_declared_with_one_number() -> None:
    def proposals(scores: int, boxes: int) -> ResolvedModel:
        recipe = Recipe()
        inputs = [recipe.input(F32, (7, 2)), recipe.input(F32, (7, 8)), recipe.input(I32, (7,))]
        inputs += [recipe.constant(OperandType.FLOAT32, 0.5), *recipe.integers(-1, 0)]
        inputs += [recipe.constant(OperandType.FLOAT32, value) for value in (0.5, 1.0, 0.5)]
        outputs = [Operand(F32, (scores,)), Operand(F32, (boxes, 4)), Operand(I32, (0,)), Operand(I32, (0,))]
        first = recipe.operation(OperationType.BOX_WITH_NMS_LIMIT, inputs, *outputs)
        return recipe.build(*range(first, first + 4))

    validate_dimensions(proposals(5, 5))
    refusal(
        lambda: validate_dimensions(proposals(5, 6)), INVALID, "the outputs have 5 and 6 boxes, expected equal numbers"
    )


def test_a_branch_that_makes_other_dimensions_than_its_if_is_refused() -> None:
    check(branches())
    model = branches(then=(2,), inner=(0,))
    words = r"operation 0 \(IF\): the inputs of its then branch: number 0 has dimensions \[2\], expected \[1\]"
    refusal(lambda: check(model), INVALID, words)


def test_a_branch_whose_result_follows_from_its_inputs_is_compared_with_the_output_of_its_if() -> None:
    model = branches(inner=(0,), result=(3,))
    words = r"operation 0 \(IF\): the outputs of its then branch: number 0 has dimensions \[1\], expected \[3\]"
    refusal(lambda: check(model), INVALID, words)


def test_a_loop_whose_result_follows_from_its_body_is_compared_with_its_output() -> None:
    def loop(declared: Dimensions) -> Model:
        program = Program()
        main, condition, body = (program.graph() for _ in range(3))
        value = condition.input()
        condition.returns(condition.less(value, value))
        value = body.input()
        body.returns(body.add(value, body.constant(np.ones((2, 1))), ()))
        inputs = [main.reference(condition), main.reference(body), main.input(())]
        main.returns(main.operation(OperationType.WHILE, inputs, Operand(I32, declared)))
        return program.model()

    check(loop((2, 1)))
    words = r"operation 0 \(WHILE\): the outputs of its body: number 0 has dimensions \[2, 1\], expected \[3\]"
    refusal(lambda: check(loop((3,))), INVALID, words)
