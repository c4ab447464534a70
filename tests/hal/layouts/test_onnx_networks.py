"""Networks of ONNX, whose images have their channels first, after conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from nnhal.arrays import Array
from nnhal.layouts import channels_last
from nnhal_frontends.onnx import import_onnx
from tests.support.channels_first import assert_equal_in_value, count
from tests.support.onnx_models import onnx_model, random, resolved


class _Network:
    """Nodes and constants of a graph on one image."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weights(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants[name] = random(*shape, seed=len(self.constants), low=-0.4, high=0.4)
        return name

    def positive(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants[name] = random(*shape, seed=len(self.constants), low=0.5, high=1.5)
        return name

    def convolution(self, data: str, inputs: int, outputs: int, kernel: int = 3, **attributes: Any) -> str:
        weights = self.weights(outputs, inputs, kernel, kernel)
        pads = [kernel // 2] * 4
        return self.add("Conv", data, weights, self.weights(outputs), pads=pads, **attributes)

    def model(self, *outputs: str) -> onnx.ModelProto:
        return onnx_model(self.nodes, {"x": (1, 3, 16, 12)}, outputs, self.constants)


def _chain(net: _Network) -> list[str]:
    x = net.add("Relu", net.convolution("x", 3, 4, strides=[2, 2]))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return [net.add("Clip", net.convolution(x, 4, 5), "", "")]


def _residual(net: _Network) -> list[str]:
    x = net.convolution("x", 3, 4)
    statistics = [net.positive(4), net.weights(4), net.weights(4), net.positive(4)]
    y = net.add("Relu", net.add("BatchNormalization", net.convolution(x, 4, 4), *statistics))
    both = net.add("Relu", net.add("Add", net.convolution(y, 4, 4), x))
    flat = net.add("Flatten", net.add("GlobalAveragePool", both))
    return [net.add("Gemm", flat, net.weights(7, 4), net.weights(7), transB=1)]


def _inception(net: _Network) -> list[str]:
    pooled = net.add("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    branches = [net.convolution("x", 3, 4, kernel) for kernel in (1, 3, 5)]
    return [net.add("Concat", *branches, net.convolution(pooled, 3, 2, 1), axis=1)]


def _excitation(net: _Network) -> list[str]:
    x = net.convolution("x", 3, 4)
    gate = net.add("Sigmoid", net.convolution(net.add("GlobalAveragePool", x), 4, 4, 1))
    return [net.add("HardSwish", net.add("Mul", x, gate))]


def _heads(net: _Network) -> list[str]:
    x = net.convolution("x", 3, 4)
    rows = []
    for size in (6, 9):
        net.constants["rows"] = np.array([1, -1, 3])
        last = net.add("Transpose", net.convolution(x, 4, size), perm=[0, 2, 3, 1])
        rows.append(net.add("Reshape", last, "rows"))
    return [net.add("Softmax", net.add("Concat", *rows, axis=1), axis=2)]


def _upward(net: _Network) -> list[str]:
    x = net.convolution("x", 3, 4, strides=[2, 2])
    up = net.add("ConvTranspose", x, net.weights(4, 5, 2, 2), net.weights(5), strides=[2, 2])
    return [net.convolution(net.add("Concat", up, "x", axis=1), 8, 2)]


def _dense(net: _Network) -> list[str]:
    x = net.add("Relu", net.convolution("x", 3, 4, strides=[4, 4]))
    return [net.add("Gemm", net.add("Flatten", x), net.weights(7, 48), net.weights(7), transB=1)]


@pytest.mark.parametrize(
    ("build", "transpositions"),
    [(_chain, 2), (_residual, 1), (_inception, 2), (_excitation, 2), (_heads, 1), (_upward, 2), (_dense, 2)],
)
def test_a_network_has_a_transposition_at_each_border(
    build: Callable[[_Network], list[str]], transpositions: int
) -> None:
    net = _Network()
    model = resolved(import_onnx(net.model(*build(net)), None, extension=False).model)
    result = channels_last(model).model
    assert_equal_in_value(model, result)
    assert count(result) == transpositions
