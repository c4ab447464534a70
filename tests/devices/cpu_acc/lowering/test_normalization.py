from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import Operand, OperandType, OperationType
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random, single


@pytest.mark.parametrize(
    ("code", "scale", "zero_point"), [(F32, 0.0, 0), (F16, 0.0, 0), (Q8A, 1 / 128, 128), (Q8AS, 1 / 128, 0)]
)
def test_vectors_of_length_one_or_zero(code: OperandType, scale: float, zero_point: int) -> None:
    model = single(OperationType.L2_NORMALIZATION, code, [(3, 4, 5)], [1], Operand(code, (), scale, zero_point))
    values = random(code, (3, 4, 5))
    values[1] = like(code).zero_point
    assert_agrees(model, values)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("radius", [2, 8, 2**31 - 1])
def test_neighbouring_channels(axis: int, radius: int) -> None:
    parameters = [radius, 9.0, 0.5, 0.75, axis]
    assert_single_agrees(OperationType.LOCAL_RESPONSE_NORMALIZATION, F32, [(2, 9, 4, 7)], parameters)


@pytest.mark.parametrize("channels_first", [False, True])
def test_channels_of_each_image(channels_first: bool) -> None:
    parameters = [1.5, -0.5, 1e-3, channels_first]
    (result,) = assert_single_agrees(OperationType.INSTANCE_NORMALIZATION, F32, [(2, 5, 4, 3)], parameters)
    pixels = (2, 3) if channels_first else (1, 2)
    np.testing.assert_allclose(result.mean(axis=pixels), -0.5, atol=1e-5)
