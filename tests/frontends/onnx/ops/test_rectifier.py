"""Activations against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(2, 3, 4, low=-5, high=5)}


@pytest.mark.parametrize(
    ("op_type", "attributes", "expected"),
    [
        ("Celu", {}, ["ELU"]),
        ("Celu", {"alpha": 2.0}, ["DIV", "ELU", "MUL"]),
        ("Elu", {"alpha": 0.7}, ["ELU"]),
        ("Gelu", {"approximate": "tanh"}, ["MUL", "MUL", "ADD", "MUL", "MUL", "TANH", "ADD", "MUL", "MUL"]),
        ("HardSigmoid", {}, ["MUL", "ADD", "MINIMUM", "MAXIMUM"]),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.1}, ["MUL", "ADD", "MINIMUM", "MAXIMUM"]),
        ("HardSwish", {}, ["HARD_SWISH"]),
        ("LeakyRelu", {}, ["PRELU"]),
        ("LeakyRelu", {"alpha": 0.3}, ["PRELU"]),
        ("Selu", {}, ["ELU", "MUL"]),
        ("Selu", {"alpha": 1.5, "gamma": 2.0}, ["ELU", "MUL"]),
        ("ThresholdedRelu", {"alpha": 0.5}, ["GREATER", "TILE", "SELECT"]),
    ],
)
def test_curves(op_type: str, attributes: dict[str, Any], expected: list[str]) -> None:
    model = onnx_model([make_node(op_type, ["x"], ["y"], **attributes)], {"x": [2, 3, 4]}, ["y"])
    assert operations(check(model, X)) == expected


@pytest.mark.parametrize("opset", [7, 16])
@pytest.mark.parametrize("shape", [(1,), (3, 1), (4,), (2, 3, 4)])
def test_slopes_broadcast(shape: tuple[int, ...], opset: int) -> None:
    model = onnx_model(
        [make_node("PRelu", ["x", "s"], ["y"])], {"x": [2, 3, 4]}, ["y"], {"s": random(*shape, seed=1)}, opset
    )
    assert operations(check(model, X)) == ["PRELU"]


def test_gelu_of_the_error_function_is_refused() -> None:
    with pytest.raises(UnsupportedNode, match="the error function; supported: approximate tanh"):
        import_onnx(onnx_model([make_node("Gelu", ["x"], ["y"])], {"x": [2]}, ["y"]), extension=False)


def test_half_precision_stays() -> None:
    model = onnx_model([make_node("LeakyRelu", ["x"], ["y"])], {"x": [3]}, ["y"], element_type=np.float16)
    assert operations(check(model, {"x": np.array([-2, 0, 3], np.float16)}, tolerance=1e-3)) == ["PRELU"]
