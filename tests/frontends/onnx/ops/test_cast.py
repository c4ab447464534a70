"""Cast against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random


def cast(given: Any, wanted: Any, shape: Any = (5,)) -> ModelProto:
    node = make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(wanted)))
    return onnx_model([node], {"x": shape}, ["y"], opset=13, element_type=given)


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (np.float32, np.float16, ["CAST"]),
        (np.float16, np.float32, ["CAST"]),
        (np.float32, np.int32, ["CAST"]),
        (np.float32, np.int64, ["CAST"]),
        (np.int64, np.float32, ["CAST"]),
        (np.int64, np.int32, ["CAST"]),
        (np.float32, np.bool_, ["NOT_EQUAL"]),
        (np.int32, np.bool_, ["NOT_EQUAL"]),
        (np.bool_, np.float32, ["SELECT"]),
        (np.bool_, np.int64, ["SELECT"]),
        (np.bool_, np.bool_, ["CAST"]),
        (np.uint8, np.float32, ["CAST"]),
        (np.uint8, np.int32, ["CAST"]),
        (np.int8, np.float32, ["DEQUANTIZE"]),
        (np.int8, np.int32, ["DEQUANTIZE", "CAST"]),
    ],
)
def test_numbers_stay_what_they_are(given: Any, wanted: Any, expected: list[str]) -> None:
    values = np.array([0, 1, 100, 1, 0] if np.dtype(given).kind in "ub" else [-2, 0, 1, 100, -77]).astype(given)
    assert operations(check(cast(given, wanted), {"x": values})) == expected


def test_fractions_are_dropped() -> None:
    check(cast(np.float32, np.int32, (7,)), {"x": np.array([-1.9, -0.5, 0, 0.5, 1.5, 2.5, 1e6], np.float32)})


@pytest.mark.parametrize(
    ("given", "wanted", "reason"),
    [
        (np.int32, np.uint8, "int32 to uint8, for which the HAL saturates"),
        (np.float32, np.float64, "float32 to float64; supported"),
    ],
)
def test_other_types_are_refused(given: Any, wanted: Any, reason: str) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        import_onnx(cast(given, wanted), extension=False)


def test_truths_along_an_unknown_dimension_are_refused() -> None:
    with pytest.raises(UnsupportedNode, match="bool to float32 on axes of unknown length"):
        import_onnx(cast(np.bool_, np.float32, ("N",)), extension=False)


def test_a_type_like_that_of_another_tensor() -> None:
    model = onnx_model([make_node("CastLike", ["x", "k"], ["y"])], {"x": [3]}, ["y"], {"k": np.array([1])}, 15)
    assert operations(check(model, {"x": random(3)})) == ["CAST"]
