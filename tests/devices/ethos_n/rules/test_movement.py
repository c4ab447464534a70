from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.agreement import like, single
from tests.support.npu import TYPES, assert_limit, is_taken

GRANULES = "multiples of 16 along the channels"

pytestmark = pytest.mark.parametrize("code", TYPES)


def joined(code: OperandType, lengths: Sequence[int], axis: int = 3, scale: float | None = None) -> ResolvedModel:
    images = [(1, length, 4, 4) if axis == 1 else (1, 4, 4, length) for length in lengths]
    return single(OperationType.CONCATENATION, code, images, [axis], like(code, scale=scale))


def parted(code: OperandType, image: tuple[int, ...], axis: int, parts: int) -> ResolvedModel:
    return single(OperationType.SPLIT, code, [image], [axis, parts], *[like(code)] * parts)


def ordered(code: OperandType, order: Sequence[int]) -> ResolvedModel:
    return single(OperationType.TRANSPOSE, code, [(1, 3, 4, 5)[: len(order)]], [list(order)])


def test_channels_are_joined_in_granules(code: OperandType) -> None:
    assert_limit(joined(code, [16, 32]), joined(code, [16, 17]), "SHAPE", "a part of 17 channels", GRANULES)
    assert is_taken(joined(code, [3, 5], axis=1))


def test_joined_values_grow_by_128_at_most(code: OperandType) -> None:
    inside, outside = (joined(code, [3, 5], 1, scale) for scale in (0.05 / 128, 0.05 / 256))
    assert_limit(inside, outside, "QUANT", "scale of input 0 / output scale = 256", "at most 128")


def test_a_single_tensor_is_requantised(code: OperandType) -> None:
    assert is_taken(joined(code, [3], scale=0.1))


def test_channels_are_split_in_granules(code: OperandType) -> None:
    inside, outside = parted(code, (1, 4, 4, 32), -1, 2), parted(code, (1, 4, 4, 24), -1, 3)
    assert_limit(inside, outside, "SHAPE", "a part of 8 channels", GRANULES)
    assert is_taken(parted(code, (1, 6, 4, 5), 1, 3))


def test_split_tensors_have_up_to_4_axes(code: OperandType) -> None:
    inside, outside = parted(code, (1, 4, 4, 32), 1, 2), parted(code, (1, 1, 4, 4, 32), 2, 2)
    assert_limit(inside, outside, "RANK", "input 0 of rank 5", "rank 1 to 4")


def test_the_batch_stays_in_front(code: OperandType) -> None:
    inside, outside = ordered(code, (0, 3, 1, 2)), ordered(code, (3, 1, 2, 0))
    assert_limit(inside, outside, "SHAPE", "output 0 of [5, 3, 4, 1]", "batch 1")
    inside, outside = ordered(code, (1, 0, 2)), ordered(code, (1, 0, 2, 3))
    assert_limit(inside, outside, "SHAPE", "output 0 of [3, 1, 4, 5]", "batch 1")


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
