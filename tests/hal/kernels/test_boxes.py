from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT32, I32, Q8A, Q8AS, Q16A, Q16S
from nnhal.operations.boxes import NmsKernel
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

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


BOX_WITH_NMS_LIMIT_CODE = OperationType.BOX_WITH_NMS_LIMIT
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
    return compute(BOX_WITH_NMS_LIMIT_CODE, inputs, output(F32), output(F32), output(I32), output(I32))


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
def test_box_with_nms_limit_nothing_may_be_left(regions: int) -> None:
    results = limited(np.zeros((regions, 3)), np.zeros((regions, 12)), np.zeros(regions))
    assert [result.shape for result in results] == [(0,), (0, 4), (0,), (0,)]


def test_quantised_scores_and_boxes() -> None:
    scores, boxes, *_ = compute(
        BOX_WITH_NMS_LIMIT_CODE,
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


DETECTION_POSTPROCESSING_ANCHORS = [[2, 2, 4, 4], [2, 2, 4, 3], [20, 20, 2, 2]]
"""The first two overlap by three quarters."""
DETECTION_POSTPROCESSING_SCORES = [[1, 0.9, 0.6], [1, 0.5, 0.8], [1, 0.2, 0.3]]


def detected(
    *, regular: bool = False, most: tuple[int, int, int] = (4, 1, 4), threshold: float = 0.0, background: bool = False
) -> tuple[Array, ...]:
    deltas = np.zeros((1, 3, 5))
    deltas[0, :, 4] = 99  # what lies behind the first four is none of the box's
    deltas[0, 2, :4] = [10, -5, 5 * np.log(2), 0]
    return compute(
        OperationType.DETECTION_POSTPROCESSING,
        [
            tensor(F32, [DETECTION_POSTPROCESSING_SCORES]),
            tensor(F32, deltas),
            tensor(F32, DETECTION_POSTPROCESSING_ANCHORS),
            *(scalar(FLOAT32, value) for value in (10, 10, 5, 5)),
            boolean(regular),
            *integers(*most),
            scalar(FLOAT32, threshold),
            scalar(FLOAT32, 0.5),
            boolean(background),
        ],
        output(F32),
        output(F32),
        output(I32),
        output(I32),
    )


def test_the_fast_form_suppresses_by_the_best_class() -> None:
    scores, boxes, classes, counts = detected()
    np.testing.assert_allclose(scores, [[0.9, 0.3, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(boxes[0], [[0, 0, 4, 4], [20, 18, 24, 20], [0] * 4, [0] * 4], atol=1e-5)
    assert classes.tolist() == [[0, 1, 0, 0]]
    assert counts.tolist() == [2]


def test_the_fast_form_gives_several_classes_of_a_box_as_far_as_there_is_room() -> None:
    scores, _, classes, counts = detected(most=(3, 2, 1))
    np.testing.assert_allclose(scores, [[0.9, 0.6, 0.3]], rtol=1e-6)
    assert classes.tolist() == [[0, 1, 1]]
    assert counts.tolist() == [3]


def test_the_regular_form_suppresses_in_each_class_and_sorts_by_score() -> None:
    scores, _, classes, counts = detected(regular=True)
    np.testing.assert_allclose(scores, [[0.9, 0.8, 0.3, 0.2]], rtol=1e-6)
    assert classes.tolist() == [[0, 1, 1, 0]]
    assert counts.tolist() == [4]


def test_the_regular_form_limits_each_class_and_all_of_them() -> None:
    assert detected(regular=True, most=(4, 1, 1))[3].tolist() == [2]
    assert detected(regular=True, most=(1, 1, 4))[3].tolist() == [1]


def test_labels_count_the_background_if_asked() -> None:
    assert detected(background=True)[2].tolist() == [[1, 2, 0, 0]]


def test_nothing_may_reach_the_threshold() -> None:
    scores, boxes, classes, counts = detected(regular=True, threshold=0.95)
    assert not (scores.any() or boxes.any() or classes.any() or counts.any())


GENERATE_PROPOSALS_CODE = OperationType.GENERATE_PROPOSALS
GENERATE_PROPOSALS_ANCHORS = [[0, 0, 4, 4], [0, 0, 4, 3]]
"""At one place they overlap by three quarters."""
GENERATE_PROPOSALS_SCORES = np.array([[0.5, 0.6], [0.9, 0.8], [0.7, 0.1]])
"""Of the two anchors at three places, four pixels apart."""


def proposed(
    scores: Any,
    deltas: Any,
    *,
    images: Any = ((4, 12),),
    most: tuple[int, int] = (-1, -1),
    smallest: float = 0,
    channels_first: bool = False,
) -> tuple[Array, ...]:
    return compute(
        GENERATE_PROPOSALS_CODE,
        [
            tensor(F32, scores),
            tensor(F32, deltas),
            tensor(F32, GENERATE_PROPOSALS_ANCHORS),
            tensor(F32, images),
            scalar(FLOAT32, 4),
            scalar(FLOAT32, 4),
            *integers(*most),
            scalar(FLOAT32, 0.5),
            scalar(FLOAT32, smallest),
            boolean(channels_first),
        ],
        output(F32),
        output(F32),
        output(I32),
    )


@pytest.mark.parametrize("channels_first", [False, True])
def test_the_best_anchor_of_each_place_is_left(channels_first: bool) -> None:
    scores, deltas = GENERATE_PROPOSALS_SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8))
    deltas[0, 0, 2, [0, 4]] = -0.25
    if channels_first:
        scores, deltas = scores.transpose(0, 3, 1, 2), deltas.transpose(0, 3, 1, 2)
    values, boxes, images = proposed(scores, deltas, channels_first=channels_first)
    np.testing.assert_allclose(values, [0.9, 0.7, 0.6], rtol=1e-6)
    assert boxes.tolist() == [[4, 0, 8, 4], [7, 0, 11, 4], [0, 0, 4, 3]]
    assert images.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("most", "expected"), [((2, -1), [0.9]), ((4, 0), [0.9, 0.7, 0.6]), ((0, 2), [0.9, 0.7])])
def test_limits_before_and_after_suppression(most: tuple[int, int], expected: list[float]) -> None:
    values, *_ = proposed(GENERATE_PROPOSALS_SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8)), most=most)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_small_boxes_and_those_centred_outside_their_image_are_left_out() -> None:
    scores, deltas = np.tile(GENERATE_PROPOSALS_SCORES.reshape(1, 1, 3, 2), (2, 1, 1, 1)), np.zeros((2, 1, 3, 8))
    values, boxes, images = proposed(scores, deltas, images=[[4, 12], [4, 5]], smallest=3.5)
    np.testing.assert_allclose(values, [0.9, 0.7, 0.5, 0.5], rtol=1e-6)
    assert images.tolist() == [0, 0, 0, 1]
    assert boxes[3].tolist() == [0, 0, 4, 4]


def test_generate_proposals_nothing_may_be_left() -> None:
    results = proposed(GENERATE_PROPOSALS_SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8)), smallest=5)
    assert [result.shape for result in results] == [(0,), (0, 4), (0,)]


def test_quantised_boxes_and_scores() -> None:
    scores, boxes, _ = compute(
        GENERATE_PROPOSALS_CODE,
        [
            tensor(Q8AS, [[[[50], [90]]]], 0.01, -3),
            tensor(Q8AS, [[[[0, 0, 0, 0], [2, 0, 0, 0]]]], 0.125),
            tensor(Q16S, [[-16, 0, 16, 32]], 0.125),
            tensor(Q16A, [[32, 96]], 0.125),
            scalar(FLOAT32, 4),
            scalar(FLOAT32, 4),
            *integers(-1, -1),
            scalar(FLOAT32, 0.5),
            scalar(FLOAT32, 0),
            boolean(False),
        ],
        output(Q8AS, scale=0.01, zero_point=-3),
        output(Q16A, scale=0.125),
        output(I32),
    )
    assert scores.tolist() == [90, 50]
    assert boxes.tolist() == [[24, 0, 56, 32], [0, 0, 16, 32]]
