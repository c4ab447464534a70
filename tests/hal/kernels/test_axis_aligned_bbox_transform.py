from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q16A
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

IMAGES = [[100, 50], [20, 30]]


def transformed(rois: Any, deltas: Any, batch_index: Any, code: OperandType = F32) -> Array:
    (boxes,) = compute(
        OperationType.AXIS_ALIGNED_BBOX_TRANSFORM,
        [tensor(code, rois), tensor(code, deltas), tensor(I32, batch_index), tensor(code, IMAGES)],
        output(code),
    )
    return boxes


@pytest.mark.parametrize("code", [F16, F32])
def test_centres_move_by_sizes_and_sizes_grow_by_exponents(code: OperandType) -> None:
    boxes = transformed([[10, 20, 14, 30]], [[0, 0, 0, 0, 0.5, -0.1, log(2), log(0.5)]], [0], code)
    np.testing.assert_allclose(boxes, [[10, 20, 14, 30, 10, 21.5, 18, 26.5]], rtol=1e-3)


def test_boxes_end_at_the_edge_of_their_own_image() -> None:
    boxes = transformed([[0, 0, 10, 10]] * 2, [[0, 0, 9, 9]] * 2, [0, 1])
    assert boxes.tolist() == [[0, 0, 50, 100], [0, 0, 30, 20]]


def test_quantised_boxes() -> None:
    (boxes,) = compute(
        OperationType.AXIS_ALIGNED_BBOX_TRANSFORM,
        [
            tensor(Q16A, [[80, 160, 112, 240]], 0.125),
            tensor(Q8A, [[138, 128, 128, 128]], 0.05, 128),
            tensor(I32, [0]),
            tensor(Q16A, [[800, 400]], 0.125),
        ],
        output(Q16A, scale=0.125),
    )
    assert boxes.tolist() == [[96, 160, 128, 240]]


def test_no_regions_give_no_boxes() -> None:
    assert transformed(np.zeros((0, 4)), np.zeros((0, 8)), np.zeros(0)).shape == (0, 8)


@pytest.mark.parametrize(
    ("roi", "image"), [([4, 0, 3, 1], 0), ([0, 4, 1, 3], 0), ([0, 0, 1, 1], 2), ([0, 0, 1, 1], -1)]
)
def test_malformed_regions_fail(roi: list[int], image: int) -> None:
    with pytest.raises(HalError, match="expected"):
        transformed([roi], np.zeros((1, 4)), [image])
