from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._window import SAME, VALID
from nnhal.types import OperandType, OperationType
from tests.support.convolution import transposed_convolution
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor
from tests.support.rounding import assert_sums_agree

F32 = OperandType.TENSOR_FLOAT32
I32 = OperandType.TENSOR_INT32
RNG = np.random.default_rng(5)
IMAGES, FILTERS = RNG.standard_normal((2, 3, 4, 3)), RNG.standard_normal((2, 3, 2, 3))
BIAS = np.array([1.0, -1.0])
TENSORS = [tensor(F32, IMAGES), tensor(F32, FILTERS), tensor(F32, BIAS)]
_SIGNED = (IMAGES, FILTERS, BIAS), (np.abs(IMAGES), np.abs(FILTERS), np.abs(BIAS))
"""The values, and what the rounding of their sums is measured by."""


def test_every_element_adds_its_filter() -> None:
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D, [*TENSORS, *integers(1, 0, 0, 2, 1, 2, 0), boolean(False)], output(F32)
    )
    expected, magnitudes = (
        transposed_convolution(values, weights, (2, 1), ((0, 2), (1, 0))) + bias for values, weights, bias in _SIGNED
    )
    assert_sums_agree(result, expected, FILTERS[0].size + 1, magnitudes)


@pytest.mark.parametrize("scheme", [SAME, VALID])
def test_elements_that_no_filter_reaches_are_the_bias(scheme: int) -> None:
    shape = tensor(I32, [2, 12, 16, 2] if scheme == SAME else [2, 14, 17, 2])
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D, [*TENSORS, shape, *integers(scheme, 4, 4, 0), boolean(False)], output(F32)
    )
    expected, magnitudes = np.zeros((2, *result.shape))
    for sums, (values, weights, bias) in zip((expected, magnitudes), _SIGNED, strict=True):
        sums[:, :11, :14] = transposed_convolution(values, weights, (4, 4), ((0, 0), (0, 0)))[:, :11, :14]
        sums += bias
    assert_sums_agree(result, expected, FILTERS[0].size + 1, magnitudes)


def test_channels_first_and_quantised() -> None:
    images = np.arange(8).reshape(1, 2, 2, 2)
    filters = np.arange(16).reshape(2, 2, 2, 2)
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D,
        [
            tensor(OperandType.TENSOR_QUANT8_ASYMM, np.moveaxis(images, 3, 1), 1.0, 4),
            tensor(OperandType.TENSOR_QUANT8_ASYMM, filters, 1.0, 8),
            tensor(I32, [0, 10], 1.0),
            *integers(0, 0, 0, 0, 1, 1, 0),
            boolean(True),
        ],
        output(OperandType.TENSOR_QUANT8_ASYMM, (), 1.0, 100),
    )
    expected = transposed_convolution(images - 4, filters - 8, (1, 1), ((0, 0), (0, 0)))
    np.testing.assert_array_equal(np.moveaxis(result, 1, 3), np.clip(expected + np.array([100, 110]), 0, 255))


def test_no_images_give_no_images() -> None:
    inputs = [tensor(F32, np.zeros((0, 3, 4, 3))), *TENSORS[1:], tensor(I32, [0, 6, 8, 2])]
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D, [*inputs, *integers(SAME, 2, 2, 0), boolean(False)], output(F32)
    )
    assert result.shape == (0, 6, 8, 2)
