"""Resizing of images, and exchanges between space, depth and batch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tflite_files import floats, int8
from tests.support.tflite_operators import Given, numbers, one

RESIZES = [
    ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
    ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
]


@pytest.mark.parametrize(("code", "kind"), RESIZES)
@pytest.mark.parametrize("flags", [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}])
@pytest.mark.parametrize("element", [floats, int8])
def test_images_are_resized(code: str, kind: str, flags: dict[str, bool], element: Any) -> None:
    node = one(code, [element(1, 3, 4, 2), numbers([5, 7])], element(1, 5, 7, 2), (kind, flags))
    assert node.check() == [code]


def test_depth_and_space() -> None:
    options: dict[str, Any] = {"BlockSize": 2}
    deeper = one("SPACE_TO_DEPTH", [floats(1, 4, 6, 2)], floats(1, 2, 3, 8), ("SpaceToDepthOptions", options))
    assert deeper.check() == ["SPACE_TO_DEPTH"]
    wider = one("DEPTH_TO_SPACE", [int8(1, 2, 3, 8)], int8(1, 4, 6, 2), ("DepthToSpaceOptions", options))
    assert wider.check() == ["DEPTH_TO_SPACE"]


def test_batch_and_space() -> None:
    block = numbers([2, 2])
    inputs: list[Given] = [floats(1, 3, 6, 2), block, numbers([[1, 0], [0, 0]])]
    assert one("SPACE_TO_BATCH_ND", inputs, floats(4, 2, 3, 2)).check() == ["SPACE_TO_BATCH_ND"]
    whole: list[Given] = [int8(4, 2, 3, 2), block, numbers([[0, 0], [0, 0]])]
    assert one("BATCH_TO_SPACE_ND", whole, int8(1, 4, 6, 2)).check() == ["BATCH_TO_SPACE_ND"]
    cropped: list[Given] = [floats(4, 2, 3, 2), block, numbers([[1, 0], [0, 2]])]
    assert one("BATCH_TO_SPACE_ND", cropped, floats(1, 3, 4, 2)).check() == ["BATCH_TO_SPACE_ND", "SLICE"]


def test_what_is_no_batch_of_images_is_refused() -> None:
    inputs: list[Given] = [floats(1, 4, 2), numbers([2]), numbers([[0, 0]])]
    assert "rank 3" in one("SPACE_TO_BATCH_ND", inputs, floats(2, 2, 2)).refusal()
