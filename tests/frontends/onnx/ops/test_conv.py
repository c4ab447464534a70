"""Conv against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random, values

WEIGHTS = random(6, 4, 3, 3, seed=1)
IMAGE = {"x": random(1, 4, 9, 7)}
OPEN_BATCH = {"x": ["N", 4, 9, 7]}


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 2, 0, 1], "strides": [2, 1]},
        {"dilations": [2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_windows_agree_with_onnxruntime(attributes: dict[str, Any]) -> None:
    node = make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    model = onnx_model([node], OPEN_BATCH, ["y"], {"w": WEIGHTS, "b": random(6)})
    assert operations(check(model, IMAGE)) == ["CONV_2D"]


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


def test_groups_with_dilation_are_refused_with_the_reason() -> None:
    node = make_node("Conv", ["x", "w"], ["y"], "blurred", group=2, dilations=[2, 2])
    with pytest.raises(
        UnsupportedNode, match=r"node 'blurred' \(Conv\): 2 groups with dilation; supported: .*one group"
    ):
        import_onnx(onnx_model([node], OPEN_BATCH, ["y"], {"w": random(6, 2, 3, 3)}), extension=False)


def test_images_of_one_axis_get_a_height() -> None:
    node = make_node("Conv", ["x", "w"], ["y"], pads=[1, 0], strides=[2])
    model = onnx_model([node], {"x": ["N", 4, 9]}, ["y"], {"w": random(5, 4, 3)})
    assert operations(check(model, {"x": random(2, 4, 9)})) == ["RESHAPE", "CONV_2D", "RESHAPE"]


def test_half_precision_stays() -> None:
    node = make_node("Conv", ["x", "w"], ["y"])
    half = np.float16
    model = onnx_model([node], OPEN_BATCH, ["y"], {"w": WEIGHTS.astype(half)}, element_type=half)
    check(model, {"x": IMAGE["x"].astype(half)}, tolerance=2e-2)


def test_same_padding_of_unknown_dimensions_is_refused() -> None:
    node = make_node("Conv", ["x", "w"], ["y"], "first", auto_pad="SAME_LOWER")
    model = onnx_model([node], {"x": ["N", 4, "H", "W"]}, ["y"], {"w": WEIGHTS})
    with pytest.raises(UnsupportedNode, match="auto_pad SAME_LOWER on an axis of unknown length"):
        import_onnx(model, extension=False)
    check(model, {"x": random(2, 4, 5, 6)}, shapes={"x": (2, 4, 5, 6)})
