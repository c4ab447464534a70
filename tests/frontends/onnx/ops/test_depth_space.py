"""DepthToSpace and SpaceToDepth against ONNX Runtime."""

from __future__ import annotations

import pytest
from onnx.helper import make_node

from tests.support.onnx_models import check, onnx_model, operations, random


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("DCR", ["DEPTH_TO_SPACE"]), ("CRD", ["RESHAPE", "TRANSPOSE", "RESHAPE", "DEPTH_TO_SPACE"])],
)
def test_channels_become_pixels(mode: str, expected: list[str]) -> None:
    node = make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)
    model = onnx_model([node], {"x": ["N", 12, 2, 3]}, ["y"], opset=13)
    assert operations(check(model, {"x": random(2, 12, 2, 3)})) == expected


def test_pixels_become_channels() -> None:
    model = onnx_model([make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": ["N", 3, 4, 6]}, ["y"], opset=9)
    assert operations(check(model, {"x": random(2, 3, 4, 6)})) == ["SPACE_TO_DEPTH"]
