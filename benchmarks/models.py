"""Models that are served: one that passes bytes through, and a CNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnhal.arrays import Array

_OPSET, _IR_VERSION = 17, 8
_IMAGE = (1, 3, 224, 224)
_WIDTHS = (3, 32, 64, 64, 64, 128, 128, 128, 256, 256, 256)
_HALVED = {0, 1, 4, 7}
"""Convolutions with stride 2."""
_CLASSES = 1000


def rectifier(size: int, operations: int = 1) -> onnx.ModelProto:
    """Return y = relu(relu(… x)) of ``size`` bytes: it only moves them, and ONNX Runtime cannot optimise one away."""
    names = ["x", *(f"r{number}" for number in range(1, operations)), "y"]
    nodes = [helper.make_node("Relu", [given], [made]) for given, made in pairwise(names)]
    return onnx_model(nodes, {"x": (1, size // 4)}, {"y": (1, size // 4)})


def cnn() -> onnx.ModelProto:
    """Return ten 3x3 convolutions with bias and ReLU, and a classifier: 1.76 billion floating-point operations."""
    generator = np.random.default_rng(0)
    nodes, weights, value = [], dict[str, Array](), "x"
    for number, (into, out) in enumerate(pairwise(_WIDTHS)):
        weights[f"w{number}"] = generator.standard_normal((out, into, 3, 3), np.float32) * np.float32(
            sqrt(2 / (9 * into))
        )
        weights[f"b{number}"] = np.zeros(out, np.float32)
        names = [value, f"w{number}", f"b{number}"]
        window: dict[str, Any] = {
            "kernel_shape": [3, 3],
            "pads": [1, 1, 1, 1],
            "strides": [2, 2] if number in _HALVED else [1, 1],
        }
        value = f"relu{number}"
        nodes += [
            helper.make_node("Conv", names, [f"conv{number}"], **window),
            helper.make_node("Relu", [f"conv{number}"], [value]),
        ]
    weights["head"] = generator.standard_normal((_CLASSES, _WIDTHS[-1]), np.float32) / np.float32(16)
    weights["head_bias"] = np.zeros(_CLASSES, np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head", "head_bias"], ["y"], transB=1),
    ]
    return onnx_model(nodes, {"x": _IMAGE}, {"y": (1, _CLASSES)}, weights)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    weights: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    """Return a model of float32 tensors; inputs and outputs are their dimensions by name."""
    given, results = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dimensions) for name, dimensions in tensors.items()]
        for tensors in (inputs, outputs)
    )
    initializers = [numpy_helper.from_array(values, name) for name, values in (weights or {}).items()]
    graph = helper.make_graph(nodes, "benchmark", given, results, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model
