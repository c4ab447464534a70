"""Operators of ONNX as cpu_ref computes them, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnhal_devices.cpu_ref.onnx_operators import Loop
from nnhal_devices.cpu_ref.onnx_pooling import MaxPool


def loop(shape: Sequence[int], turns: int, nested: bool = False) -> onnx.ModelProto:
    """Return a model that adds 1 to x in each turn; its outputs are the last sum, and all sums."""
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "one"], ["after"]),
            helper.make_node("Identity", ["after"], ["scanned"]),
            helper.make_node("Identity", ["go"], ["goes_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, shape),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("scanned", TensorProto.FLOAT, shape),
        ],
        [one],
    )
    nodes = [helper.make_node("Loop", ["turns", "", "x"], ["last", "all"], body=body)]
    if nested:
        scalar = helper.make_tensor_value_info("yes", TensorProto.BOOL, [])
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("last", "all")]
        branch = helper.make_graph(nodes, "branch", [], results)
        nodes = [helper.make_node("If", [scalar.name], ["last", "all"], then_branch=branch, else_branch=branch)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info("last", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("all", TensorProto.FLOAT, ["turns", *shape]),
        ],
        [numpy_helper.from_array(np.array(turns, np.int64), "turns"), numpy_helper.from_array(np.array(True), "yes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("turns", [0, 1, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_elements_of_scan_outputs_are_stacked(shape: tuple[int, ...], turns: int, nested: bool) -> None:
    model = loop(shape, turns, nested)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})
    results = ReferenceEvaluator(model, new_ops=[Loop]).run(None, {"x": x})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "SAME_UPPER"},
        {"strides": [2, 1]},
        {"storage_order": 1},
    ],
    ids=str,
)
def test_indices_are_those_of_the_maxima(attributes: dict[str, Any]) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], **attributes)
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", TensorProto.FLOAT, [2, 1, 4, 5]),
            ("y", TensorProto.FLOAT, None),
            ("i", TensorProto.INT64, None),
        )
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    given = {"x": np.random.default_rng(0).standard_normal((2, 1, 4, 5), np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = ReferenceEvaluator(model, new_ops=[MaxPool]).run(None, given)
    for got, expected in zip(results, session.run(None, given), strict=True):
        np.testing.assert_array_equal(got, expected)
