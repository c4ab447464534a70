"""Comparisons, logic and Where against ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx.helper import make_node

from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import by_cpu_ref, onnx_model, operations

MASK = np.array([[True], [False]])


def test_where_of_truths_is_logic() -> None:
    model = onnx_model(
        [make_node("Where", ["c", "a", "b"], ["y"])], {"c": [2, 1], "a": [2], "b": [1]}, ["y"], element_type=np.bool_
    )
    imported = import_onnx(model, extension=False)
    assert operations(imported) == ["LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR"]
    first, second = np.array([True, False]), np.array([True])
    (result,) = by_cpu_ref(imported, {"c": MASK, "a": first, "b": second})  # ONNX Runtime has no such kernel
    np.testing.assert_array_equal(result, np.where(MASK, first, second))
