from __future__ import annotations

import numpy as np

from nnhal.operations.operand_types import F32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, output, tensor


def test_the_maximum_of_a_heat_map_stays_near_the_highest_cell() -> None:
    heatmap = np.zeros((1, 5, 5, 1))
    heatmap[0, 2, 1:4, 0] = 0.0, 1.0, 1.0
    heatmap[0, 1, 1:4, 0] = heatmap[0, 3, 1:4, 0] = 0.95, 0.9, 0.9
    inputs = [tensor(F32, heatmap), tensor(F32, [[0, 0, 5, 5]]), boolean(False)]
    _, points = compute(OperationType.HEATMAP_MAX_KEYPOINT, inputs, output(F32), output(F32))
    assert np.abs(points - 2.5).max() <= 1.5
