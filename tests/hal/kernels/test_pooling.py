from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._window import SAME
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor

F32 = OperandType.TENSOR_FLOAT32
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
EXPLICIT = (1, 2, 0, 1, 2, 1, 3, 2, 0)
"""Left, right, top, bottom, stride width and height, width, height, no activation."""


def windows(images: Array, function: Callable[[Array], Array]) -> Array:
    """Pool as EXPLICIT does [b, h, w, c], window by window."""
    _, height, width, _ = images.shape
    rows = [
        [
            function(images[:, y : y + 2, max(x, 0) : x + 3].reshape(len(images), -1, images.shape[3]))
            for x in range(-1, width + 2 - 2, 2)
        ]
        for y in range(height)
    ]
    return np.array(rows).transpose(2, 0, 1, 3)


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        (OperationType.MAX_POOL_2D, lambda seen: seen.max(axis=1)),
        (OperationType.AVERAGE_POOL_2D, lambda seen: seen.mean(axis=1)),
        (OperationType.L2_POOL_2D, lambda seen: np.sqrt((seen**2).mean(axis=1))),
    ],
)
@pytest.mark.parametrize("channels_first", [False, True])
def test_padding_takes_no_part(
    operation: OperationType, function: Callable[[Array], Array], channels_first: bool
) -> None:
    images = np.random.default_rng(1).standard_normal((2, 4, 6, 3)) - 5
    given = np.moveaxis(images, 3, 1) if channels_first else images
    (result,) = compute(operation, [tensor(F32, given), *integers(*EXPLICIT), boolean(channels_first)], output(F32))
    found = np.moveaxis(result, 1, 3) if channels_first else result
    np.testing.assert_allclose(found, windows(images, function), 1e-5, 1e-5)


@pytest.mark.parametrize(("activation", "expected"), [(0, [[-3], [3]]), (1, [[2], [3]])])
def test_quantised_averages_round_half_away_and_clamp(activation: int, expected: list[list[int]]) -> None:
    values = tensor(Q8AS, np.reshape([-2, -3, 2, 3], (1, 2, 2, 1)), 0.5, 2)
    (result,) = compute(
        OperationType.AVERAGE_POOL_2D, [values, *integers(SAME, 2, 1, 2, 1, activation)], output(Q8AS, (), 0.5, 2)
    )
    assert result[0, :, 0].tolist() == expected


def test_quantised_maxima_may_be_the_least_value() -> None:
    values = tensor(Q8AS, np.full((1, 2, 2, 1), -128), 0.5)
    (result,) = compute(OperationType.MAX_POOL_2D, [values, *integers(SAME, 1, 1, 2, 2, 0)], output(Q8AS, (), 0.5))
    assert (result == -128).all()


def test_no_images_give_no_images() -> None:
    for operation in (OperationType.MAX_POOL_2D, OperationType.AVERAGE_POOL_2D, OperationType.L2_POOL_2D):
        inputs = [tensor(F32, np.zeros((0, 4, 4, 2))), *integers(SAME, 2, 2, 3, 3, 0)]
        (result,) = compute(operation, inputs, output(F32))
        assert result.shape == (0, 2, 2, 2)
