"""Operators that change a tensor's shape or return it."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import TensorType

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref
from tests.support.tflite_files import Spec, floats, int32
from tests.support.tflite_operators import one


@pytest.mark.parametrize(
    ("code", "options", "output", "expected"),
    [("SHAPE", ("ShapeOptions", {"OutType": TensorType.INT32}), int32(3), [2, 3, 4]), ("RANK", None, int32(), [3])],
)
def test_a_shape_that_is_known_is_a_constant(code: str, options: Any, output: Spec, expected: list[int]) -> None:
    node = one(code, [floats(2, 3, 4)], output, options)
    assert node.check() == ["CAST"]
    imported = import_tflite(node.file())
    assert imported.folded_nodes == (f"{code}_0:y0",)
    assert by_cpu_ref(imported, node.arrays())[0].tolist() == expected
