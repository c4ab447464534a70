"""Outputs that are compared after runs with two paints."""

from __future__ import annotations

import numpy as np

from nnhal_tools.paint import PAINTS, Unwritten, paint, unwritten

SHAPE = (2, 3)


def test_what_was_written_is_told_from_what_was_left() -> None:
    outputs = []
    for number in range(2):
        view = np.zeros(SHAPE, np.float32)
        paint(view, number)
        view[0] = 1.5
        outputs.append(view.reshape(-1).view(np.uint8))
    left = unwritten(*outputs)
    assert left == Unwritten(12, 24, 12)
    assert str(left) == "12 of 24 bytes were not written, the first at offset 12"


def test_results_that_look_like_a_paint_are_written() -> None:
    for painted in PAINTS:
        same = np.full(24, painted, np.uint8)
        assert unwritten(same, same) is None
    assert unwritten(np.zeros(0, np.uint8), np.zeros(0, np.uint8)) is None


def test_each_element_of_any_type_is_painted() -> None:
    for code in (np.bool_, np.int8, np.float16, np.int32, np.float64):
        views = [np.zeros(SHAPE, code) for _ in PAINTS]
        for number, view in enumerate(views):
            paint(view, number)
        left = unwritten(*(view.reshape(-1).view(np.uint8) for view in views))
        assert left == Unwritten(views[0].nbytes, views[0].nbytes, 0)
