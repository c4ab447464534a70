"""Conv against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random, values

WEIGHTS = random(6, 4, 3, 3, seed=1)
IMAGE = {"x": random(1, 4, 9, 7)}
OPEN_BATCH = {"x": ["N", 4, 9, 7]}


def test_paddings_are_in_the_hal_order() -> None:
    node = make_node("Conv", ["x", "w"], ["y"], pads=[1, 2, 3, 4])  # top, left, bottom, right
    imported = import_onnx(onnx_model([node], OPEN_BATCH, ["y"], {"w": WEIGHTS}), extension=False)
    assert [values(imported, 0, position) for position in (3, 4, 5, 6)] == [[2], [4], [1], [3]]


@pytest.mark.parametrize(
    ("weights", "attributes", "operation", "filter_shape"),
    [
        (random(6, 4, 3, 3), {}, "CONV_2D", (6, 3, 3, 4)),
        (random(8, 1, 3, 2), {"group": 4}, "DEPTHWISE_CONV_2D", (1, 3, 2, 8)),
        (random(4, 1, 3, 3), {"group": 4, "dilations": [2, 1]}, "DEPTHWISE_CONV_2D", (1, 3, 3, 4)),
        (random(6, 2, 3, 3), {"group": 2}, "GROUPED_CONV_2D", (6, 3, 3, 2)),
    ],
)
def test_the_group_chooses_the_operation(
    weights: np.ndarray[Any, Any], attributes: dict[str, Any], operation: str, filter_shape: tuple[int, ...]
) -> None:
    model = onnx_model([make_node("Conv", ["x", "w"], ["y"], **attributes)], OPEN_BATCH, ["y"], {"w": weights})
    imported = check(model, IMAGE)
    assert operations(imported) == [operation]
    main = imported.model.main
    assert main.operands[main.operations[0].inputs[1]].dimensions == filter_shape
