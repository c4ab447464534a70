"""Relu between a convolution of quantised numbers and its quantisation."""

from __future__ import annotations

from itertools import count

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_devices.cpu_acc.rectified import clamp_after_quantization
from tests.support.onnx_models import by_onnxruntime, onnx_model, random


def network(zero: int, element: type[np.generic] = np.uint8, read_twice: bool = False) -> onnx.ModelProto:
    """A quantised convolution with Relu. Its sums are exact in float, whichever way they are computed."""
    constants = {
        "scale": np.array(0.25, np.float32),
        "zero": np.array(zero, element),
        "w": (random(4, 3, 3, 3, seed=1) * 20).astype(np.int8),
        "signed": np.array(0, np.int8),
        "wide": np.array(4, np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "signed"], ["v"]),
        helper.make_node("Conv", ["d", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "activation"),
        helper.make_node("QuantizeLinear", ["r", "wide", "zero"], ["s"]),
        helper.make_node("DequantizeLinear", ["s", "wide", "zero"], ["y"]),
    ]
    return onnx_model(nodes, {"x": [1, 3, 8, 8]}, ["y", "r"] if read_twice else ["y"], constants)


def changed(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    numbers = count()
    clamp_after_quantization(copy.graph, {}, lambda: f"fresh{next(numbers)}")
    return copy


@pytest.mark.parametrize(("zero", "element"), [(128, np.uint8), (7, np.uint8), (0, np.int8), (-100, np.int8)])
def test_it_clamps_quantised_numbers_and_the_convolution_is_of_bytes(zero: int, element: type[np.generic]) -> None:
    before = network(zero, element)
    after = changed(before)
    assert [node.op_type for node in after.graph.node[3:]] == ["Conv", "QuantizeLinear", "Clip", "DequantizeLinear"]
    onnx.checker.check_model(after)
    x = {"x": random(1, 3, 8, 8, low=-9, high=9)}
    np.testing.assert_array_equal(by_onnxruntime(after, x)[0], by_onnxruntime(before, x)[0])


def test_what_onnx_runtime_knows_itself_or_others_read_stays() -> None:
    for model in (network(0), network(-128, np.int8), network(128, read_twice=True)):
        assert changed(model) == model
