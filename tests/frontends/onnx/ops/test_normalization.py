"""Normalisations against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
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


@pytest.mark.parametrize("axis", [-1, 2, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization_becomes_an_instance_normalization(axis: int, bias: bool) -> None:
    constants = {"s": random(*X["x"].shape[axis:], seed=1), "b": random(*X["x"].shape[axis:], seed=2)}
    node = make_node("LayerNormalization", ["x", "s", "b"] if bias else ["x", "s"], ["y"], axis=axis)
    model = onnx_model([node], {"x": ["N", 6, 3, 4]}, ["y"], constants, 17)
    expected = ["RESHAPE", "INSTANCE_NORMALIZATION", "RESHAPE", "MUL", "ADD"]
    assert operations(check(model, X, tolerance=5e-5)) == expected[: 4 + bias]


def test_means_that_are_read_are_refused() -> None:
    node = make_node("LayerNormalization", ["x", "s"], ["y", "m"])
    with pytest.raises(UnsupportedNode, match="means or deviations are read"):
        import_onnx(onnx_model([node], {"x": [2, 3]}, ["y", "m"], {"s": random(3)}, 17), extension=False)


@pytest.mark.parametrize("attributes", [{"size": 3}, {"size": 5, "alpha": 0.3, "beta": 0.5, "bias": 2.0}])
def test_neighbouring_channels(attributes: dict[str, Any]) -> None:
    model = onnx_model([make_node("LRN", ["x"], ["y"], **attributes)], {"x": ["N", 6, 3, 4]}, ["y"])
    assert operations(check(model, X)) == ["LOCAL_RESPONSE_NORMALIZATION"]


def test_an_even_number_of_channels_is_refused() -> None:
    with pytest.raises(UnsupportedNode, match="size 4"):
        import_onnx(onnx_model([make_node("LRN", ["x"], ["y"], size=4)], {"x": [1, 6, 3, 4]}, ["y"]), extension=False)


@pytest.mark.parametrize("axis", [1, -1])
def test_vectors_of_length_one(axis: int) -> None:
    model = onnx_model([make_node("LpNormalization", ["x"], ["y"], axis=axis)], {"x": ["N", 6, 3, 4]}, ["y"])
    assert operations(check(model, {"x": np.where(np.arange(4) % 2, X["x"], 0)})) == ["L2_NORMALIZATION"]
    model = onnx_model([make_node("LpNormalization", ["x"], ["y"], axis=axis, p=1)], {"x": [2, 6, 3, 4]}, ["y"])
    with pytest.raises(UnsupportedNode, match="p 1; supported: p 2"):
        import_onnx(model, extension=False)
