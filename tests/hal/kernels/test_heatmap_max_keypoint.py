from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, Q8A, Q16A
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, output, tensor

CODE = OperationType.HEATMAP_MAX_KEYPOINT


def paraboloid(x: float, y: float, size: int = 6) -> Array:
    """Highest at a place between the cells, where it is 5."""
    rows, columns = np.mgrid[:size, :size]
    surface: Array = 5 - 0.3 * (columns - x) ** 2 - 0.5 * (rows - y) ** 2 + 0.1 * (columns - x) * (rows - y)
    return surface


def located(heatmap: Array, code: OperandType = F32, box: tuple[int, ...] = (0, 0, 60, 120)) -> tuple[Array, Array]:
    inputs = [tensor(code, heatmap[None, ..., None]), tensor(code, [box]), boolean(False)]
    scores, points = compute(CODE, inputs, output(code), output(code))
    return scores[0, 0], points[0, 0]


@pytest.mark.parametrize("code", [F16, F32])
def test_the_maximum_of_a_quadratic_surface_is_found_between_the_cells(code: OperandType) -> None:
    score, point = located(paraboloid(2.3, 3.4), code)
    np.testing.assert_allclose(score, 5, rtol=2e-3)
    np.testing.assert_allclose(point, [(2.3 + 0.5) * 10, (3.4 + 0.5) * 20], rtol=2e-3)


def test_cells_beyond_the_edge_mirror_those_within() -> None:
    heatmap = np.zeros((4, 4))
    heatmap[0, 3] = 1
    score, point = located(heatmap, box=(10, 10, 14, 14))
    assert score == 1
    assert point.tolist() == [13.5, 10.5]


def test_a_flat_heatmap_is_highest_in_its_first_cell() -> None:
    score, point = located(np.ones((4, 4)), box=(0, 0, 4, 4))
    assert score == 1
    assert point.tolist() == [0.5, 0.5]


def test_the_maximum_stays_near_the_highest_cell() -> None:
    heatmap = np.zeros((5, 5))
    heatmap[2, 1:4] = 0.0, 1.0, 1.0
    heatmap[1, 1:4] = heatmap[3, 1:4] = 0.95, 0.9, 0.9
    _, point = located(heatmap, box=(0, 0, 5, 5))
    assert np.abs(point - 2.5).max() <= 1.5


def test_keypoints_of_all_boxes_in_either_layout() -> None:
    heatmaps = np.stack([[paraboloid(1, 2), paraboloid(4, 3), paraboloid(2.5, 2.5)]] * 2)
    boxes = tensor(F32, [[0, 0, 6, 6], [100, 100, 106, 106]])
    first = compute(CODE, [tensor(F32, heatmaps), boxes, boolean(True)], output(F32), output(F32))
    last = compute(CODE, [tensor(F32, heatmaps.transpose(0, 2, 3, 1)), boxes, boolean(False)], output(F32), output(F32))
    np.testing.assert_allclose(first[1][1], np.array([[1.5, 2.5], [4.5, 3.5], [3, 3]]) + 100, rtol=1e-5)
    for a, b in zip(first, last, strict=True):
        np.testing.assert_array_equal(a, b)


def test_quantised_scores_and_points() -> None:
    heatmap = np.round(paraboloid(2, 3) * 20).clip(0)[None, ..., None]
    inputs = [tensor(Q8A, heatmap, 0.05), tensor(Q16A, [[80, 80, 128, 128]], 0.125), boolean(False)]
    scores, points = compute(CODE, inputs, output(Q8A, scale=0.5, zero_point=3), output(Q16A, scale=0.125))
    assert scores.tolist() == [[13]]
    assert points.tolist() == [[[100, 108]]]


def test_no_boxes_have_no_keypoints() -> None:
    inputs = [tensor(F32, np.zeros((0, 4, 4, 3))), tensor(F32, np.zeros((0, 4))), boolean(False)]
    scores, points = compute(CODE, inputs, output(F32), output(F32))
    assert (scores.shape, points.shape) == ((0, 3), (0, 3, 2))


def test_boxes_with_crossed_corners_fail() -> None:
    with pytest.raises(HalError, match="x1 <= x2"):
        located(np.ones((4, 4)), box=(4, 0, 3, 1))
