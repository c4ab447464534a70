from __future__ import annotations

import numpy as np
import pytest

from nnhal.types import OperandType, OperationType
from tests.support.convolution import convolution
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, per_channel, tensor
from tests.support.rounding import assert_sums_agree

F32 = OperandType.TENSOR_FLOAT32
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("multiplier", [1, 3])
def test_every_channel_has_its_own_filters(multiplier: int, channels_first: bool) -> None:
    rng = np.random.default_rng(multiplier)
    channels = 4 * multiplier
    images, filters = rng.standard_normal((2, 6, 5, 4)), rng.standard_normal((1, 3, 2, channels))
    given = np.moveaxis(images, 3, 1) if channels_first else images
    (result,) = compute(
        OperationType.DEPTHWISE_CONV_2D,
        [
            tensor(F32, given),
            tensor(F32, filters),
            tensor(F32, np.ones(channels)),
            *integers(1, 1, 0, 2, 1, 2, multiplier, 0),
            boolean(channels_first),
            *integers(2, 1),
        ],
        output(F32),
    )
    grouped = filters[0].transpose(2, 0, 1)[..., np.newaxis]
    expected, magnitudes = (
        convolution(values, weights, (2, 1), ((0, 2), (1, 1)), (1, 2), groups=4) + 1
        for values, weights in ((images, grouped), (np.abs(images), np.abs(grouped)))
    )
    found = np.moveaxis(result, 1, 3) if channels_first else result
    assert_sums_agree(found, expected, grouped[0].size + 1, magnitudes)


def test_quantised_channels_may_have_their_own_scales() -> None:
    (result,) = compute(
        OperationType.DEPTHWISE_CONV_2D,
        [
            tensor(Q8AS, [[[[2, -4]]]], 0.5),
            per_channel(np.array([3, 5], np.int8).reshape(1, 1, 1, 2), [1.0, 2.0], 3),
            tensor(OperandType.TENSOR_INT32, [1, -1]),
            *integers(1, 1, 1, 1, 0),
        ],
        output(Q8AS, (), 0.25, 7),
    )
    assert result.ravel().tolist() == [7 + 14, 7 - 84]
