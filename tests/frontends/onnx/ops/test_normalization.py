"""Normalisations against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(2, 6, 3, 4)}
CONSTANTS = {"s": random(6, seed=1), "b": random(6, seed=2)}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (["N", 6, "H", "W"], ["INSTANCE_NORMALIZATION", "MUL", "ADD"]),
        (["N", 6, 12], ["RESHAPE", "INSTANCE_NORMALIZATION", "RESHAPE", "MUL", "ADD"]),
    ],
)
def test_instance_normalization_of_any_rank_is_imported(shape: list[Any], expected: list[str]) -> None:
    node = make_node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=1e-3)
    values = {"x": X["x"].reshape(2, 6, 12) if len(shape) == 3 else X["x"]}
    assert operations(check(onnx_model([node], {"x": shape}, ["y"], CONSTANTS), values, tolerance=5e-5)) == expected


def test_group_normalization_becomes_an_instance_normalization() -> None:
    node = make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)
    model = onnx_model([node], {"x": ["N", 6, 3, 4]}, ["y"], CONSTANTS, 21)
    model.graph.output[0].CopyFrom(
        make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6, 3, 4])
    )  # ONNX does not infer it
    expected = ["RESHAPE", "INSTANCE_NORMALIZATION", "RESHAPE", "MUL", "ADD"]
    assert operations(check(model, X, tolerance=5e-5)) == expected
