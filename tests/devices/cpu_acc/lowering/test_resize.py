from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, I32, Q8A, Q8AS
from nnhal.resolved import propagate_dimensions
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.lowered import lower
from tests.support.agreement import assert_agrees, like, random, single
from tests.support.models import Recipe


@pytest.mark.parametrize("code", [F32, Q8A, Q8AS])
@pytest.mark.parametrize("places", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(("width", "height"), [(12, 15), (9, 3), (6, 5)])
def test_the_nearest_pixels_of_images_that_are_held_with_channels_first(
    width: int, height: int, channels_first: bool, places: tuple[bool, bool], code: OperandType
) -> None:
    recipe, kind = Recipe(), like(code)
    shape = (2, 4, 5, 6) if channels_first else (2, 5, 6, 4)
    image = recipe.input(code, shape, kind.scale, kind.zero_point)
    image = recipe.operation(
        OperationType.MAX_POOL_2D, [image, *recipe.integers(2, 1, 1, 1, 1, 0), _flag(recipe, channels_first)], kind
    )
    flags = [_flag(recipe, each) for each in (channels_first, *places)]
    inputs = [image, *recipe.integers(width, height), *flags]
    model = recipe.build(recipe.operation(OperationType.RESIZE_NEAREST_NEIGHBOR, inputs, kind))
    values = random(code, shape)
    (result,) = assert_agrees(model, values)
    assert np.isin(result, values).all()


def _flag(recipe: Recipe, value: bool) -> int:
    return recipe.constant(OperandType.BOOL, value)


@pytest.mark.parametrize(("width", "node"), [(12, "Resize"), (13, "Gather")])
def test_whole_factors_repeat_rows_and_columns_of_channels(width: int, node: str) -> None:
    model = single(OperationType.RESIZE_NEAREST_NEIGHBOR, F32, [(1, 3, 4, 6)], [width, 8, True, False, False])
    assert node in [each.type for each in lower(model, propagate_dimensions(model)).nodes]


@pytest.mark.parametrize("code", [F32, Q8AS])
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("before", [(0, 3, 1, 2), (0, 2, 3, 1), (3, 1, 2, 0), (2, 3, 0, 1)])
@pytest.mark.parametrize("after", [None, (0, 3, 1, 2), (1, 2, 3, 0)])
def test_images_are_resized_between_transpositions(
    before: tuple[int, ...], after: tuple[int, ...] | None, channels_first: bool, code: OperandType
) -> None:
    """ONNX Runtime would move transpositions past the Resize, to axes that it refuses."""
    recipe, kind = Recipe(), like(code)
    image = recipe.input(code, (2, 4, 5, 3), kind.scale, kind.zero_point)
    value = recipe.operation(OperationType.TRANSPOSE, [image, recipe.constant(I32, list(before))], kind)
    flags = [_flag(recipe, each) for each in (channels_first, False, True)]
    value = recipe.operation(OperationType.RESIZE_BILINEAR, [value, *recipe.integers(5, 4), *flags], kind)
    if after is not None:
        value = recipe.operation(OperationType.TRANSPOSE, [value, recipe.constant(I32, list(after))], kind)
    assert_agrees(recipe.build(value), random(code, (2, 4, 5, 3)))
