from __future__ import annotations

import numpy as np
import pytest

from nnhal.types import OperandType, OperationType
from tests.support.convolution import convolution
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor
from tests.support.rounding import assert_sums_agree

F32 = OperandType.TENSOR_FLOAT32


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups_do_not_see_one_another(groups: int) -> None:
    rng = np.random.default_rng(groups)
    images, filters = rng.standard_normal((2, 5, 5, 6)), rng.standard_normal((12, 3, 3, 6 // groups))
    (result,) = compute(
        OperationType.GROUPED_CONV_2D,
        [
            tensor(F32, images),
            tensor(F32, filters),
            tensor(F32, np.zeros(12)),
            *integers(0, 1, 1, 0, 2, 1, groups, 0),
            boolean(False),
        ],
        output(F32),
    )
    expected, magnitudes = (
        convolution(values, weights, (1, 2), ((1, 0), (0, 1)), groups=groups)
        for values, weights in ((images, filters), (np.abs(images), np.abs(filters)))
    )
    assert_sums_agree(result, expected, filters[0].size + 1, magnitudes)
