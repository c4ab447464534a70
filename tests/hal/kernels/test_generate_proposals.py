from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F32, FLOAT32, I32, Q8AS, Q16A, Q16S
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

CODE = OperationType.GENERATE_PROPOSALS
ANCHORS = [[0, 0, 4, 4], [0, 0, 4, 3]]
"""At one place they overlap by three quarters."""
SCORES = np.array([[0.5, 0.6], [0.9, 0.8], [0.7, 0.1]])
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
        CODE,
        [
            tensor(F32, scores),
            tensor(F32, deltas),
            tensor(F32, ANCHORS),
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
    scores, deltas = SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8))
    deltas[0, 0, 2, [0, 4]] = -0.25
    if channels_first:
        scores, deltas = scores.transpose(0, 3, 1, 2), deltas.transpose(0, 3, 1, 2)
    values, boxes, images = proposed(scores, deltas, channels_first=channels_first)
    np.testing.assert_allclose(values, [0.9, 0.7, 0.6], rtol=1e-6)
    assert boxes.tolist() == [[4, 0, 8, 4], [7, 0, 11, 4], [0, 0, 4, 3]]
    assert images.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("most", "expected"), [((2, -1), [0.9]), ((4, 0), [0.9, 0.7, 0.6]), ((0, 2), [0.9, 0.7])])
def test_limits_before_and_after_suppression(most: tuple[int, int], expected: list[float]) -> None:
    values, *_ = proposed(SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8)), most=most)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_small_boxes_and_those_centred_outside_their_image_are_left_out() -> None:
    scores, deltas = np.tile(SCORES.reshape(1, 1, 3, 2), (2, 1, 1, 1)), np.zeros((2, 1, 3, 8))
    values, boxes, images = proposed(scores, deltas, images=[[4, 12], [4, 5]], smallest=3.5)
    np.testing.assert_allclose(values, [0.9, 0.7, 0.5, 0.5], rtol=1e-6)
    assert images.tolist() == [0, 0, 0, 1]
    assert boxes[3].tolist() == [0, 0, 4, 4]


def test_nothing_may_be_left() -> None:
    results = proposed(SCORES.reshape(1, 1, 3, 2), np.zeros((1, 1, 3, 8)), smallest=5)
    assert [result.shape for result in results] == [(0,), (0, 4), (0,)]


def test_quantised_boxes_and_scores() -> None:
    scores, boxes, _ = compute(
        CODE,
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
