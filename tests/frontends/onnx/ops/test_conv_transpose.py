"""ConvTranspose against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

WEIGHTS = random(4, 6, 3, 3, seed=1)
IMAGE = {"x": random(1, 4, 5, 7)}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 2, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "output_shape": [9, 14]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
    ],
)
def test_windows_agree_with_onnxruntime(attributes: dict[str, Any]) -> None:
    node = make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    model = onnx_model([node], {"x": [1, 4, 5, 7]}, ["y"], {"w": WEIGHTS, "b": random(6)}, 11)
    assert operations(check(model, IMAGE)) == ["TRANSPOSE_CONV_2D"]


def test_a_batch_of_unknown_size_and_no_bias() -> None:
    node = make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    model = onnx_model([node], {"x": ["N", 4, 5, 7]}, ["y"], {"w": WEIGHTS})
    assert operations(check(model, IMAGE)) == ["TRANSPOSE_CONV_2D"]


def test_images_of_one_axis_get_a_height() -> None:
    node = make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2], pads=[1, 0])
    model = onnx_model([node], {"x": ["N", 4, 5]}, ["y"], {"w": random(4, 6, 3)})
    assert operations(check(model, {"x": random(2, 4, 5)})) == ["RESHAPE", "TRANSPOSE_CONV_2D", "RESHAPE"]


@pytest.mark.parametrize(
    ("weights", "attributes", "reason"),
    [
        (random(4, 3, 3, 3), {"group": 2}, "2 groups"),
        (WEIGHTS, {"dilations": [2, 1]}, "dilation"),
        (WEIGHTS, {"strides": [2, 2], "output_padding": [1, 0]}, "more than its windows reach"),
    ],
)
def test_what_the_operation_has_not_is_refused(weights: Any, attributes: dict[str, Any], reason: str) -> None:
    node = make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    with pytest.raises(UnsupportedNode, match=reason):
        import_onnx(onnx_model([node], {"x": [1, 4, 5, 7]}, ["y"], {"w": weights}), extension=False)


def test_weights_that_are_computed_at_run_time_are_refused() -> None:
    node = make_node("ConvTranspose", ["x", "w"], ["y"])
    model = onnx_model([node], {"x": [1, 4, 5, 7], "w": list(np.shape(WEIGHTS))}, ["y"])
    with pytest.raises(UnsupportedNode, match="its weights 'w' is computed at run time"):
        import_onnx(model, extension=False)
