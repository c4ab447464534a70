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


_OUTPUTS = {
    F32: Operand(F32),
    F16: Operand(F16),
    Q8A: Operand(Q8A, (), 1 / 256, 0),
    Q8AS: Operand(Q8AS, (), 1 / 256, -128),
}


@pytest.mark.parametrize("code", list(_OUTPUTS))
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_along_an_axis(axis: int, beta: float, code: OperandType) -> None:
    assert_single_agrees(OperationType.SOFTMAX, code, [(2, 3, 7)], [beta, axis], _OUTPUTS[code])


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_certainty_is_the_largest_value_and_does_not_wrap_around(code: OperandType) -> None:
    model = single(OperationType.SOFTMAX, code, [(2, 3)], [1.0], _OUTPUTS[code])
    high, low = (255, 0) if code == Q8A else (127, -128)
    values = np.array([[high, low, low], [low, low, high]]).astype(np.uint8 if code == Q8A else np.int8)
    (result,) = assert_agrees(model, values)
    np.testing.assert_array_equal(result, values)


def test_logarithms_of_a_softmax_agree_with_the_reference() -> None:
    assert_single_agrees(OperationType.LOG_SOFTMAX, F32, [(2, 3, 7)], [2.0, 1])
