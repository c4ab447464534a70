"""Gemm and MatMul against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from tests.support.onnx_models import check, onnx_model, operations, random

FULLY = ["FULLY_CONNECTED"]


@pytest.mark.parametrize(
    ("opset", "attributes", "weights", "added", "expected"),
    [
        (7, {"transB": 1, "alpha": 0.5, "beta": 2.0}, random(5, 4), random(5), FULLY),
        (9, {}, random(4, 5), np.float32(0.5), FULLY),
        (13, {}, random(4, 5), None, FULLY),
        (13, {}, random(4, 5), random(1, 5), FULLY),
        (13, {}, random(4, 5), random(3, 5), [*FULLY, "ADD"]),
        (13, {}, random(4, 3), random(3, 1), [*FULLY, "ADD"]),
    ],
)
def test_gemm_becomes_what_its_attributes_take(
    opset: int, attributes: dict[str, Any], weights: Any, added: np.ndarray[Any, Any] | None, expected: list[str]
) -> None:
    inputs, constants = ["x", "w"], {"w": weights}
    if added is not None:
        inputs, constants = ["x", "w", "c"], {"w": weights, "c": added}
    model = onnx_model([make_node("Gemm", inputs, ["y"], **attributes)], {"x": [3, 4]}, ["y"], constants, opset)
    assert operations(check(model, {"x": random(3, 4, seed=2)})) == expected


def test_gemm_of_run_time_values() -> None:
    model = onnx_model([make_node("Gemm", ["x", "w"], ["y"], transA=1)], {"x": [4, 3], "w": [4, 5]}, ["y"])
    imported = check(model, {"x": random(4, 3), "w": random(4, 5)})
    assert operations(imported) == ["TRANSPOSE", "TRANSPOSE", "FULLY_CONNECTED"]


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        (["N", 4], (3, 4), FULLY),
        ([2, 3, 4], (2, 3, 4), [*FULLY, "RESHAPE"]),
        (["N", 3, 4], (2, 3, 4), [*FULLY, "RESHAPE"]),
        ([4], (4,), ["RESHAPE", *FULLY, "RESHAPE"]),
    ],
)
def test_matmul_with_constant_weights(shape: list[int | str], size: tuple[int, ...], expected: list[str]) -> None:
    model = onnx_model([make_node("MatMul", ["x", "w"], ["y"])], {"x": shape}, ["y"], {"w": random(4, 5)})
    assert operations(check(model, {"x": random(*size)})) == expected


def test_matmul_of_run_time_values() -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["p"]), make_node("Relu", ["p"], ["y"])]
    model = onnx_model(nodes, {"x": [2, 3, 4], "w": [2, 4, 5]}, ["y"])
    imported = check(model, {"x": random(2, 3, 4), "w": random(2, 4, 5)})
    assert operations(imported) == ["BATCH_MATMUL", "RELU"]
