from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.operations._types import F32, FLOAT32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

ANCHORS = [[2, 2, 4, 4], [2, 2, 4, 3], [20, 20, 2, 2]]
"""The first two overlap by three quarters."""
SCORES = [[1, 0.9, 0.6], [1, 0.5, 0.8], [1, 0.2, 0.3]]


def detected(
    *, regular: bool = False, most: tuple[int, int, int] = (4, 1, 4), threshold: float = 0.0, background: bool = False
) -> tuple[Array, ...]:
    deltas = np.zeros((1, 3, 5))
    deltas[0, :, 4] = 99  # what lies behind the first four is none of the box's
    deltas[0, 2, :4] = [10, -5, 5 * np.log(2), 0]
    return compute(
        OperationType.DETECTION_POSTPROCESSING,
        [
            tensor(F32, [SCORES]),
            tensor(F32, deltas),
            tensor(F32, ANCHORS),
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
