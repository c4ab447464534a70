from __future__ import annotations

import pytest

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.agreement import single
from tests.support.npu import SAME, TYPES, VALID, assert_limit, is_taken

MAXIMUM, AVERAGE = OperationType.MAX_POOL_2D, OperationType.AVERAGE_POOL_2D
WINDOWS = "3 x 3, or the whole of an image of up to 8 x 8"
NO_TRANSPOSITION = "channels last (NHWC)"

pytestmark = pytest.mark.parametrize("code", TYPES)


def pooled(
    code: OperandType,
    operation: OperationType,
    window: tuple[int, int],
    stride: int,
    padding: int = SAME,
    activation: int = 0,
    sides: tuple[int, int] = (12, 12),
    channels_first: bool = False,
) -> ResolvedModel:
    height, width = window
    image = (1, 3, *sides) if channels_first else (1, *sides, 3)
    parameters = [padding, stride, stride, width, height, activation, channels_first]
    return single(operation, code, [image], parameters)


def mean(code: OperandType, image: tuple[int, ...], axes: list[int], keep: int = 1) -> ResolvedModel:
    return single(OperationType.MEAN, code, [image], [axes, keep])


@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize("activation", range(4))
def test_maxima_of_2_and_3(code: OperandType, side: int, activation: int) -> None:
    got = f"strides of 1 x 1 with a window of {side} x {side}"
    inside = pooled(code, MAXIMUM, (side, side), 2, activation=activation)
    assert_limit(inside, pooled(code, MAXIMUM, (side, side), 1), "STRIDE", got, "2 in both directions")


@pytest.mark.parametrize("window", [(4, 4), (2, 3), (1, 1)])
def test_other_windows(code: OperandType, window: tuple[int, int]) -> None:
    got = f"a window of {window[0]} x {window[1]}"
    inside, outside = pooled(code, MAXIMUM, (2, 2), 2), pooled(code, MAXIMUM, window, 2)
    assert_limit(inside, outside, "KERNEL", got, "2 x 2 or 3 x 3")
    inside, outside = pooled(code, AVERAGE, (3, 3), 1), pooled(code, AVERAGE, window, 1)
    assert_limit(inside, outside, "KERNEL", got, WINDOWS)


def test_averages_of_3(code: OperandType) -> None:
    inside = pooled(code, AVERAGE, (3, 3), 1)
    got = "strides of 2 x 2 with a window of 3 x 3"
    assert_limit(inside, pooled(code, AVERAGE, (3, 3), 2), "STRIDE", got, "1 in both directions")
    outside = pooled(code, AVERAGE, (3, 3), 1, VALID)
    assert_limit(inside, outside, "KERNEL", "paddings of (0, 0) and (0, 0)", "1 on each side (SAME)")


def test_the_average_of_a_small_image(code: OperandType) -> None:
    assert is_taken(pooled(code, AVERAGE, (7, 7), 1, VALID, sides=(7, 7)))
    inside = pooled(code, AVERAGE, (8, 5), 5, VALID, sides=(8, 5))
    outside = pooled(code, AVERAGE, (9, 5), 5, VALID, sides=(9, 5))
    assert_limit(inside, outside, "KERNEL", "a window of 9 x 5", WINDOWS)


@pytest.mark.parametrize(("activation", "name"), [(1, "RELU"), (2, "RELU1"), (3, "RELU6")])
def test_averages_are_not_clamped(code: OperandType, activation: int, name: str) -> None:
    inside, outside = (pooled(code, AVERAGE, (3, 3), 1, activation=each) for each in (0, activation))
    assert_limit(inside, outside, "ACTIVATION", name, "NONE")


@pytest.mark.parametrize(("operation", "stride"), [(MAXIMUM, 2), (AVERAGE, 1)])
def test_channels_last(code: OperandType, operation: OperationType, stride: int) -> None:
    inside, outside = (pooled(code, operation, (3, 3), stride, channels_first=first) for first in (False, True))
    got = "images of [batch, channels, height, width]"
    assert_limit(inside, outside, "LAYOUT", got, NO_TRANSPOSITION)


@pytest.mark.parametrize("keep", [0, 1])
def test_the_mean_of_a_small_image(code: OperandType, keep: int) -> None:
    inside, outside = mean(code, (1, 7, 8, 3), [1, 2], keep), mean(code, (1, 7, 9, 3), [2, 1], keep)
    assert_limit(inside, outside, "SHAPE", "an image of 7 x 9", "at most 8 x 8")
    assert is_taken(mean(code, (1, 8, 8, 3), [-3, -2]))


@pytest.mark.parametrize("axes", [[1], [3], [1, 2, 3], [0, 1, 2]])
def test_other_axes(code: OperandType, axes: list[int]) -> None:
    inside, outside = mean(code, (1, 7, 7, 3), [1, 2]), mean(code, (1, 7, 7, 3), axes)
    assert_limit(inside, outside, "KERNEL", f"axes {axes} of 4", "axes 1 and 2 of 4")
