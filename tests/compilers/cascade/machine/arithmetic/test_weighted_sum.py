from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import Q8AS
from nnhal.types import FusedActivation
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum
from tests.support.npu import convolution


@pytest.mark.parametrize(("depth", "expected"), [(8, np.float32), (2048, np.float64)])
def test_sums_are_taken_in_the_type_that_holds_them(depth: int, expected: type[np.generic]) -> None:
    model = convolution(Q8AS, (2, 5, 5, depth), [1, 1, 1, 0], (1, 7, 6, depth))
    assert WeightedSum(model.context(0, 0), FusedActivation.NONE, channel_axis=0).dtype == expected


def test_the_zero_point_of_the_input_is_taken_out_of_the_sums() -> None:
    op = convolution(Q8AS, (2, 1, 1, 3), [1, 1, 1, 0], (1, 2, 2, 3)).context(0, 0)
    with_zero_point = WeightedSum(op, FusedActivation.NONE, channel_axis=0)
    centred = WeightedSum(op, FusedActivation.NONE, channel_axis=0, centred=True)
    pixel = np.array([[-100, 20, 127]])
    weights = with_zero_point.filters.reshape(2, 3).T
    channels = Interval(0, 2)
    np.testing.assert_array_equal(
        with_zero_point.finish(pixel @ weights, channels),
        centred.finish((pixel - op.inputs[0].zero_point) @ weights, channels),
    )
