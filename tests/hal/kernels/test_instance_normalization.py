from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, boolean, output, scalar, tensor


def parameters(main: OperandType, channels_first: bool) -> list[Given]:
    return [*(scalar(scalar_float(main), value) for value in (2, 0.5, 1e-3)), boolean(channels_first)]


@pytest.mark.parametrize("main", [F16, F32])
def test_each_channel_of_each_image_on_its_own(main: OperandType) -> None:
    images = np.random.default_rng(2).normal(3, 2, size=(2, 4, 5, 3))
    mean, variance = images.mean((1, 2), keepdims=True), images.var((1, 2), keepdims=True)
    expected = 2 * (images - mean) / np.sqrt(variance + 1e-3) + 0.5
    for channels_first in (False, True):
        given, wanted = (np.moveaxis(a, 3, 1) if channels_first else a for a in (images, expected))
        inputs = [tensor(main, given), *parameters(main, channels_first)]
        (result,) = compute(OperationType.INSTANCE_NORMALIZATION, inputs, output(main))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 if main == F32 else 1e-2)


def test_no_images_give_none() -> None:
    inputs = [tensor(F32, np.zeros((0, 2, 2, 1))), *parameters(F32, False)]
    (result,) = compute(OperationType.INSTANCE_NORMALIZATION, inputs, output(F32))
    assert result.shape == (0, 2, 2, 1)
