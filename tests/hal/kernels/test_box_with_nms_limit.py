from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F32, FLOAT32, I32, Q8AS, Q16A
from nnhal.operations.boxes import NmsKernel
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, scalar, tensor

CODE = OperationType.BOX_WITH_NMS_LIMIT
FIRST, CLOSE, FAR = [0, 0, 4, 4], [0, 0, 4, 3], [8, 8, 9, 9]
"""The first two share three quarters of their area."""


def limited(
    scores: Any,
    boxes: Any,
    batch_index: Any,
    *,
    kernel: NmsKernel = NmsKernel.HARD,
    most: int = -1,
    floor: float = 0.3,
    iou: float = 0.5,
) -> tuple[Array, ...]:
    parameters = [
        scalar(FLOAT32, 0.3),
        *integers(most, kernel),
        scalar(FLOAT32, iou),
        scalar(FLOAT32, 0.5),
        scalar(FLOAT32, floor),
    ]
    inputs = [tensor(F32, scores), tensor(F32, boxes), tensor(I32, batch_index), *parameters]
    return compute(CODE, inputs, output(F32), output(F32), output(I32), output(I32))


def of_one_class(scores: list[float], boxes: list[list[int]]) -> tuple[list[list[float]], list[list[int]]]:
    """With a background whose score and box must not matter."""
    return [[1, score] for score in scores], [[0, 0, 9, 9, *box] for box in boxes]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (NmsKernel.HARD, [0.9, 0.4]),
        (NmsKernel.LINEAR, [0.9, 0.4, 0.8 * (1 - 0.75)]),
        (NmsKernel.GAUSSIAN, [0.9, 0.4, 0.8 * exp(-(0.75**2) / 0.5)]),
    ],
)
def test_a_selected_box_lowers_the_scores_of_those_that_overlap_it(kernel: NmsKernel, expected: list[float]) -> None:
    scores, boxes, classes, images = limited(
        *of_one_class([0.8, 0.9, 0.4], [CLOSE, FIRST, FAR]), [0, 0, 0], kernel=kernel, floor=0.1
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert boxes.tolist() == [FIRST, FAR, CLOSE][: len(expected)]
    assert classes.tolist() == [1] * len(expected)
    assert images.tolist() == [0] * len(expected)


def test_soft_kernels_drop_boxes_whose_lowered_score_is_too_small() -> None:
    scores, *_ = limited(*of_one_class([0.8, 0.9], [CLOSE, FIRST]), [0, 0], kernel=NmsKernel.LINEAR, floor=0.21)
    np.testing.assert_allclose(scores, [0.9], rtol=1e-6)


def test_scores_below_the_threshold_do_not_take_part() -> None:
    scores, *_ = limited(*of_one_class([0.29, 0.3, 0.31], [FIRST, FAR, [5, 5, 6, 6]]), [0, 0, 0])
    np.testing.assert_allclose(scores, [0.31, 0.3], rtol=1e-6)


def test_the_limit_holds_for_all_classes_of_an_image_together() -> None:
    scores, _, classes, images = limited(
        [[0, 0.5, 0.7], [0, 0.9, 0.6], [0, 0.4, 0.8]],
        [[*FIRST, *FIRST, *FIRST], [*FAR, *FAR, *FAR], [*FIRST, *FIRST, *FIRST]],
        [2, 2, 5],
        most=2,
    )
    np.testing.assert_allclose(scores, [0.9, 0.7, 0.4, 0.8], rtol=1e-6)
    assert classes.tolist() == [1, 2, 1, 2]
    assert images.tolist() == [2, 2, 5, 5]


@pytest.mark.parametrize("regions", [0, 2])
def test_nothing_may_be_left(regions: int) -> None:
    results = limited(np.zeros((regions, 3)), np.zeros((regions, 12)), np.zeros(regions))
    assert [result.shape for result in results] == [(0,), (0, 4), (0,), (0,)]


def test_quantised_scores_and_boxes() -> None:
    scores, boxes, *_ = compute(
        CODE,
        [
            tensor(Q8AS, [[0, 80], [0, 90]], 0.01),
            tensor(Q16A, [[0, 0, 8, 8, 0, 0, 32, 24], [0, 0, 8, 8, 0, 0, 32, 32]], 0.125),
            tensor(I32, [0, 0]),
            scalar(FLOAT32, 0.3),
            *integers(-1, NmsKernel.LINEAR),
            *(scalar(FLOAT32, value) for value in (0.5, 1, 0.1)),
        ],
        output(Q8AS, scale=0.01),
        output(Q16A, scale=0.125),
        output(I32),
        output(I32),
    )
    assert scores.tolist() == [90, 20]
    assert boxes.tolist() == [[0, 0, 32, 32], [0, 0, 32, 24]]
