from __future__ import annotations

import pytest

from nnhal.operations._types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.agreement import single
from tests.support.ethos_u import assert_limit, is_taken
from tests.support.npu import SAME, TYPES, VALID

POOLINGS = pytest.mark.parametrize("operation", [OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D])


def pooled(
    operation: OperationType, height: int, width: int, stride: int, side: int, scheme: int = VALID
) -> ResolvedModel:
    return single(operation, Q8A, [(1, side, side, 1)], [scheme, stride, stride, width, height, 0])


@POOLINGS
def test_strides(operation: OperationType) -> None:
    allowed = "1, 2 or 3 in each direction, or one window along the axis"
    inside, outside = pooled(operation, 2, 2, 3, 9), pooled(operation, 2, 2, 4, 9)
    assert_limit(inside, outside, "STRIDE", "strides of 4 x 4", allowed)
    assert is_taken(pooled(operation, 7, 7, 7, 7))


@POOLINGS
def test_sizes(operation: OperationType) -> None:
    allowed = "at most 256 rows and 65536 elements"
    inside, outside = pooled(operation, 256, 1, 1, 257), pooled(operation, 257, 1, 1, 257)
    assert_limit(inside, outside, "KERNEL", "a window of 257 x 1", allowed)


def test_averages_with_padding_are_small() -> None:
    average, maximum = OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D
    got, allowed = "an average over 9 x 8 with padding", "sides of at most 8 with padding, larger ones without"
    inside, outside = pooled(average, 8, 8, 1, 12, SAME), pooled(average, 9, 8, 1, 12, SAME)
    assert_limit(inside, outside, "KERNEL", got, allowed)
    assert is_taken(pooled(maximum, 9, 8, 1, 12, SAME))
    assert is_taken(pooled(average, 9, 8, 1, 12))


@pytest.mark.parametrize("code", TYPES)
def test_elements_of_a_mean(code: OperandType) -> None:
    def mean(rows: int) -> ResolvedModel:
        return single(OperationType.MEAN, code, [(1, rows, 4096, 1)], [[1, 2], 1])

    got, allowed = f"a mean of {2049 * 4096} elements", f"at most {2**23}"
    assert_limit(mean(2048), mean(2049), "SHAPE", got, allowed)


@pytest.mark.parametrize(("axis", "name"), [(2, "columns"), (3, "channels")])
def test_extents_of_a_mean(axis: int, name: str) -> None:
    def mean(extent: int) -> ResolvedModel:
        dimensions = [1, 2, 2, 2]
        dimensions[axis] = extent
        return single(OperationType.MEAN, Q8A, [tuple(dimensions)], [[axis], 1])

    assert_limit(mean(4096), mean(4097), "SHAPE", f"a mean over 4097 {name}", "at most 4096")
