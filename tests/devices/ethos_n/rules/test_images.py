from __future__ import annotations

from typing import Any

import pytest

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.agreement import single
from tests.support.npu import TYPES, assert_limit, is_taken

TWICE = "twice the height and twice the width"
RESIZES = [OperationType.RESIZE_BILINEAR, OperationType.RESIZE_NEAREST_NEIGHBOR]

pytestmark = pytest.mark.parametrize("code", TYPES)


def blocks(code: OperandType, size: int, channels_first: bool = False) -> ResolvedModel:
    image = (1, 9 * size**2, 4, 4) if channels_first else (1, 4, 4, 9 * size**2)
    return single(OperationType.DEPTH_TO_SPACE, code, [image], [size, channels_first])


def resized(code: OperandType, operation: OperationType, *parameters: Any) -> ResolvedModel:
    return single(operation, code, [(1, 4, 6, 3)], parameters)


def test_blocks_of_2(code: OperandType) -> None:
    assert_limit(blocks(code, 2), blocks(code, 3), "KERNEL", "a block of 3", "2")
    got = "images of [batch, channels, height, width]"
    assert_limit(blocks(code, 2), blocks(code, 2, channels_first=True), "LAYOUT", got, "channels last (NHWC)")


@pytest.mark.parametrize("operation", RESIZES)
def test_twice_the_size(code: OperandType, operation: OperationType) -> None:
    inside = resized(code, operation, 12, 8, False)
    assert_limit(inside, resized(code, operation, 12, 7, False), "SHAPE", "4 x 6 resized to 7 x 12", TWICE)
    assert_limit(inside, resized(code, operation, 13, 8, False), "SHAPE", "4 x 6 resized to 8 x 13", TWICE)
    assert is_taken(resized(code, operation, 2.0, 2.0, False, False, False))


@pytest.mark.parametrize("operation", RESIZES)
def test_plain_sampling(code: OperandType, operation: OperationType) -> None:
    inside = resized(code, operation, 12, 8, False, False, False)
    outside = resized(code, operation, 12, 8, False, True, False)
    assert_limit(inside, outside, "KERNEL", "align_corners = true", "false")
    outside = resized(code, operation, 12, 8, False, False, True)
    assert_limit(inside, outside, "KERNEL", "half_pixel_centers = true", "false")
