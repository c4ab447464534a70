"""Models that are served: one that passes bytes through, and a CNN."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 17, 8
_IMAGE = (1, 3, 224, 224)
_WIDTHS = (3, 32, 64, 64, 64, 128, 128, 128, 256, 256, 256)
_HALVED = {0, 1, 4, 7}
"""Convolutions with stride 2."""
_CLASSES = 1000


def rectifier(size: int, operations: int = 1) -> onnx.ModelProto:
    """y = relu(relu(… x)) of ``size`` bytes: it only moves them, and ONNX Runtime cannot optimise one away."""
    names = ["x", *(f"r{number}" for number in range(1, operations)), "y"]
    nodes = [helper.make_node("Relu", [given], [made]) for given, made in pairwise(names)]
    return _model(nodes, (1, size // 4), (1, size // 4), [])


def cnn() -> onnx.ModelProto:
    """Return ten 3x3 convolutions with bias and ReLU, and a classifier: 1.76 billion floating-point operations."""
    generator = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for number, (into, out) in enumerate(pairwise(_WIDTHS)):
        filters = generator.standard_normal((out, into, 3, 3), np.float32) * np.float32(sqrt(2 / (9 * into)))
        weights += [
            numpy_helper.from_array(filters, f"w{number}"),
            numpy_helper.from_array(np.zeros(out, np.float32), f"b{number}"),
        ]
        strides = [2, 2] if number in _HALVED else [1, 1]
        nodes.append(
            helper.make_node(
                "Conv",
                [value, f"w{number}", f"b{number}"],
                [f"conv{number}"],
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
                strides=strides,
            )
        )
        value = f"relu{number}"
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [value]))
    head = generator.standard_normal((_CLASSES, _WIDTHS[-1]), np.float32) / np.float32(16)
    weights += [
        numpy_helper.from_array(head, "head"),
        numpy_helper.from_array(np.zeros(_CLASSES, np.float32), "head_bias"),
    ]
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head", "head_bias"], ["y"], transB=1),
    ]
    return _model(nodes, _IMAGE, (1, _CLASSES), weights)


def write_model(repository: Path, name: str, model: onnx.ModelProto, configuration: str = "") -> Path:
    """Write a model into a repository, with a config.pbtxt if one is given, and return its file."""
    file = repository / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(model, file)
    if configuration:
        (repository / name / "config.pbtxt").write_text(configuration)
    return file


def _model(
    nodes: list[onnx.NodeProto],
    into: tuple[int, ...],
    out: tuple[int, ...],
    weights: list[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, into)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model
