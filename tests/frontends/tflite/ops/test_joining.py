"""Operators that join tensors along an axis, or split them."""

from __future__ import annotations

import numpy as np
from tflite import ActivationFunctionType

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref, operations
from tests.support.tflite_files import floats
from tests.support.tflite_operators import one


def test_an_activation_follows_what_is_joined() -> None:
    # LiteRT's kernels take no activation, though the schema has one.
    options = {"Axis": 0, "FusedActivationFunction": ActivationFunctionType.RELU}
    node = one("CONCATENATION", [floats(1, 3), floats(1, 3)], floats(2, 3), ("ConcatenationOptions", options))
    imported = import_tflite(node.file())
    assert operations(imported) == ["CONCATENATION", "RELU"]
    (joined,) = by_cpu_ref(imported, node.arrays())
    np.testing.assert_array_equal(joined, np.maximum(np.concatenate(list(node.arrays().values())), 0))
