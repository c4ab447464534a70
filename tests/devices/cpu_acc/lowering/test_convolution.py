from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel
from nnhal.types import ChannelQuant, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.agreement import assert_agrees, like, random
from tests.support.models import Recipe

_IMAGES, _CHANNELS = (2, 7, 6, 4), 4
_SAME, _VALID = 1, 2
_INPUT_SCALE, _FILTER_SCALE, _OUTPUT_SCALE = 0.05, 0.02, 0.9


def _moved(values: Array) -> Array:
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


def _model(
    operation: OperationType,
    code: OperandType,
    filter_code: OperandType,
    filter_dimensions: Dimensions,
    channels: int,
    parameters: list[int | bool],
    channels_first: bool = False,
    channel_dim: int = 0,
    images: Dimensions = _IMAGES,
) -> ResolvedModel:
    recipe = Recipe()
    given = like(code)
    dimensions = (images[0], images[3], images[1], images[2]) if channels_first else images
    image = recipe.input(code, dimensions, given.scale, given.zero_point)
    values = random(filter_code, filter_dimensions, seed=1)
    quantized = code in (Q8A, Q8AS)
    if filter_code == Q8C:
        scales = tuple(float(np.float32(_FILTER_SCALE * (1 + c / 8))) for c in range(channels))
        weights = recipe.constant(Q8C, values, channels=ChannelQuant(scales, channel_dim))
    else:
        weights = recipe.constant(code, values, _FILTER_SCALE if quantized else 0.0, given.zero_point)
    if quantized:
        scale = 0.0 if filter_code == Q8C else float(np.float32(_INPUT_SCALE) * np.float32(_FILTER_SCALE))
        bias = recipe.constant(I32, random(I32, (channels,), seed=2) * 20, scale)
    else:
        bias = recipe.constant(code, random(code, (channels,), seed=2))
    constants = [
        recipe.constant(OperandType.BOOL if isinstance(value, bool) else OperandType.INT32, value)
        for value in parameters
    ]
    output = like(code, scale=_OUTPUT_SCALE if quantized else 0.0)
    return recipe.build(recipe.operation(operation, [image, weights, bias, *constants], output))


_FILTERS = pytest.mark.parametrize(
    ("code", "filter_code"), [(F32, F32), (F16, F16), (Q8A, Q8A), (Q8AS, Q8AS), (Q8A, Q8C), (Q8AS, Q8C)]
)


@_FILTERS
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("activation", [0, 3])
def test_a_convolution_agrees_with_the_reference(
    code: OperandType, filter_code: OperandType, channels_first: bool, activation: int
) -> None:
    parameters = [_SAME, 2, 1, activation, channels_first, 1, 2]
    model = _model(OperationType.CONV_2D, code, filter_code, (5, 3, 2, 4), 5, parameters, channels_first)
    images = random(code, _IMAGES)
    assert_agrees(model, _moved(images) if channels_first else images)


@_FILTERS
@pytest.mark.parametrize("multiplier", [1, 3])
def test_convolution_of_each_channel(code: OperandType, filter_code: OperandType, multiplier: int) -> None:
    channels = multiplier * _CHANNELS
    model = _model(
        OperationType.DEPTHWISE_CONV_2D,
        code,
        filter_code,
        (1, 3, 3, channels),
        channels,
        [1, 0, 2, 1, 1, 2, multiplier, 1],  # explicit paddings left, right, top, bottom
        channel_dim=3,
    )
    assert_agrees(model, random(code, _IMAGES))


@_FILTERS
def test_convolution_in_groups(code: OperandType, filter_code: OperandType) -> None:
    parameters: list[int | bool] = [_VALID, 1, 1, 2, 1, False]
    assert_agrees(
        _model(OperationType.GROUPED_CONV_2D, code, filter_code, (6, 2, 3, 2), 6, parameters), random(code, _IMAGES)
    )


@_FILTERS
@pytest.mark.parametrize("paddings", [[0, 0, 0, 0], [1, 0, 1, 2]])
def test_a_transposed_convolution_agrees_with_the_reference(
    code: OperandType, filter_code: OperandType, paddings: list[int]
) -> None:
    model = _model(OperationType.TRANSPOSE_CONV_2D, code, filter_code, (5, 3, 4, 4), 5, [*paddings, 2, 3, 1, False])
    assert_agrees(model, random(code, _IMAGES))


@pytest.mark.parametrize("asked", [(13, 11), (14, 12)])
def test_a_transposed_convolution_reaches_the_size_asked_for(asked: tuple[int, int]) -> None:
    recipe = Recipe()
    image, weights = recipe.input(F32, _IMAGES), recipe.constant(F32, random(F32, (5, 2, 2, 4), seed=1))
    bias, shape = recipe.constant(F32, random(F32, (5,), seed=2)), recipe.constant(I32, [2, *asked, 5])
    parameters = [*recipe.integers(_SAME, 2, 2, 0), recipe.constant(OperandType.BOOL, False)]
    inputs = [image, weights, bias, shape, *parameters]
    model = recipe.build(recipe.operation(OperationType.TRANSPOSE_CONV_2D, inputs, like(F32)))
    assert_agrees(model, random(F32, _IMAGES))


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_filter_and_bias_may_be_variables(code: OperandType) -> None:
    recipe = Recipe()
    given = like(code)
    quantized = given.scale > 0
    scale = _FILTER_SCALE if quantized else 0.0
    product = float(np.float32(given.scale) * np.float32(scale))
    bias_code = I32 if quantized else code
    inputs = [
        recipe.input(code, _IMAGES, given.scale, given.zero_point),
        recipe.input(code, (5, 3, 3, 4), scale, given.zero_point),
        recipe.input(bias_code, (5,), product),
    ]
    output = like(code, scale=_OUTPUT_SCALE if quantized else 0.0)
    convolution = recipe.operation(OperationType.CONV_2D, [*inputs, *recipe.integers(_SAME, 1, 1, 0)], output)
    values = random(code, _IMAGES), random(code, (5, 3, 3, 4), seed=1), random(bias_code, (5,), seed=2)
    assert_agrees(recipe.build(convolution), *values)
