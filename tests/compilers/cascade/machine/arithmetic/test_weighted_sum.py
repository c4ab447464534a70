from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.kernels.quantization import requantize
from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.types import FusedActivation, Operand, OperandType
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.machine.arithmetic.weighted_sum import Requantizer, WeightedSum
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


INT32 = (1 << 31) - 1


@given(
    st.lists(st.integers(-INT32, INT32), min_size=1, max_size=40),
    st.lists(st.floats(1e-12, 8.0), min_size=1, max_size=3),
    st.sampled_from([Q8A, Q8AS]),
    st.sampled_from(FusedActivation),
)
def test_it_is_the_requantisation_of_cpu_ref(
    accumulators: list[int], multipliers: list[float], code: OperandType, activation: FusedActivation
) -> None:
    output = Operand(code, (), 0.25, 7)
    values = np.array(accumulators, np.int64)[:, np.newaxis] + np.arange(len(multipliers))
    expected = requantize(values, np.array(multipliers), output, activation)
    requantizer = Requantizer(np.array(multipliers), output, activation, len(multipliers), int(np.abs(values).max()))
    np.testing.assert_array_equal(requantizer(values.copy(), slice(None)), expected)


def test_halves_round_away_from_zero() -> None:
    values = np.array([[-6], [-2], [2], [6]], np.int64)
    requantizer = Requantizer(np.array(0.25), Operand(Q8AS, (), 1.0, 0), FusedActivation.NONE, 1, 6)
    assert requantizer(values, slice(None)).tolist() == [[-2], [-1], [1], [2]]


def test_a_slice_of_the_channels_has_their_multipliers() -> None:
    requantizer = Requantizer(np.array([1.0, 0.5, 0.25]), Operand(Q8A, (), 1.0, 0), FusedActivation.NONE, 3, 100)
    assert requantizer(np.array([[40, 40]], np.int64), slice(1, 3)).tolist() == [[20, 10]]
