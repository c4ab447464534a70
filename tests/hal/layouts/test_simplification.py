"""Models with channels last compute the same with fewer operations that only move values."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.layouts import ChannelsLast, channels_last, simplified
from nnhal.operations.operand_types import F32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.channels_first import ImageRecipe, assert_equal_in_value, count

CODES = pytest.mark.parametrize("code", [F32, Q8AS], ids=["float32", "quant8"])
VIEW = OperationType.RESHAPE


def converted(model: ResolvedModel) -> ChannelsLast:
    result = simplified(channels_last(model))
    assert len(result.origins) == len(result.model.model.main.operations)
    assert_equal_in_value(model, result.model)
    return result


def flat(recipe: ImageRecipe, images: int, *shape: int) -> int:
    return recipe.apply(VIEW, images, recipe.vector(*shape))


def dense(recipe: ImageRecipe, rows: int, size: int, units: int = 3) -> int:
    weights = recipe.constant(recipe.code, np.arange(units * size).reshape(units, size) % 7 - 3, *_scale(recipe))
    return recipe.apply(OperationType.FULLY_CONNECTED, rows, weights, recipe.bias(units), [0])


def _scale(recipe: ImageRecipe) -> tuple[float, int]:
    return (0.015625, 0) if recipe.quantised else (0.0, 0)


@CODES
def test_one_pixel_needs_no_transposition(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = flat(recipe, flat(recipe, recipe.images(1, 4), 1, 2, 2), 1, 4, 1, 1)
    result = converted(recipe.build(flat(recipe, recipe.convolution(x, 4, 5, 1), 1, 5))).model
    assert (count(result), count(result, VIEW)) == (0, 2)


@CODES
def test_a_view_that_somebody_else_reads_stays(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    x = flat(recipe, recipe.images(1, 4), 1, 4, 1, 1)
    result = converted(recipe.build(recipe.convolution(x, 4, 5, 1), recipe.apply(OperationType.RELU, x))).model
    assert count(result) == 0


@CODES
def test_weights_are_permuted_for_images_that_are_flattened(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 4, 5), 3, 4)
    rows = recipe.apply(OperationType.RELU, flat(recipe, images, 2, 80))
    result = converted(recipe.build(dense(recipe, rows, 80))).model
    assert (count(result), count(result, VIEW)) == (1, 1)


@CODES
def test_a_matrix_may_flatten_its_input_itself(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 4, 5), 3, 4)
    assert count(converted(recipe.build(dense(recipe, images, 80))).model) == 1


@CODES
def test_a_convolution_may_stand_for_a_matrix(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(1, 3, 4, 5), 3, 4)
    column = flat(recipe, flat(recipe, images, 1, 80), 1, 80, 1, 1)
    assert count(converted(recipe.build(flat(recipe, recipe.convolution(column, 80, 2, 1), 1, 2))).model) == 1


@CODES
@pytest.mark.parametrize(("shape", "size"), [((8, 20), 20), ((2, 5, 16), 16)])
def test_rows_of_something_else_than_images_are_left_alone(
    code: OperandType, shape: tuple[int, ...], size: int
) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 4, 5), 3, 4)
    assert count(converted(recipe.build(dense(recipe, flat(recipe, images, *shape), size))).model) == 2


@CODES
def test_a_transposition_that_somebody_else_reads_stays(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(2, 3, 4, 5), 3, 4)
    rows = flat(recipe, images, 2, 80)
    assert count(converted(recipe.build(dense(recipe, rows, 80), rows)).model) == 2


@CODES
def test_an_output_may_be_a_view(code: OperandType) -> None:
    recipe = ImageRecipe(code)
    images = recipe.convolution(recipe.images(1, 3, 4, 5), 3, 1)
    result = converted(recipe.build(images)).model
    assert (count(result), count(result, VIEW)) == (1, 1)


def test_dimensions_that_are_unknown_are_transposed() -> None:
    recipe = ImageRecipe()
    images = recipe.convolution(recipe.images(0, 3, 4, 5), 3, 1)
    model = recipe.build(images)
    assert count(simplified(channels_last(model)).model) == 2


def test_a_view_stands_for_what_it_replaces() -> None:
    recipe = ImageRecipe()
    x = flat(recipe, recipe.images(1, 4), 1, 4, 1, 1)
    result = converted(recipe.build(recipe.convolution(x, 4, 5, 1)))
    assert result.origins[:2] == (0, 1)


def test_a_model_without_anything_to_leave_out_stays_as_it_is() -> None:
    recipe = ImageRecipe()
    given = channels_last(recipe.build(recipe.convolution(recipe.images(2, 3, 4, 5), 3, 4)))
    assert simplified(given).model is given.model
