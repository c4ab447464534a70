"""ONNX networks for the ``nnhal mlip`` command, with seeded random weights and names that a user would give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_STAGES = (64, 128, 256, 512)


class OnnxNetwork:
    """Collects nodes. Each method returns the name of what its node computes, which is the node's name with ``:0``."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.channels: dict[str, int] = {}
        self._random = np.random.default_rng(seed)

    def node(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        result = f"{name}:0"
        self.nodes.append(helper.make_node(kind, inputs, [result], name=name, **attributes))
        self.channels[result] = self.channels.get(inputs[0], 0)
        return result

    def weights(self, name: str, *shape: int, gain: float = 1.0) -> str:
        """Add a constant that keeps activations near 1."""
        deviation = gain / max(np.sqrt(np.prod(shape[1:])), 1.0)
        values = self._random.normal(0.0, deviation, shape).astype(np.float32)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def conv(
        self, data: str, channels: int, kernel: int, name: str, stride: int = 1, pad: int = 0, gain: float = 1.4
    ) -> str:
        kernel_name = self.weights(f"{name}.weight", channels, self.channels[data], kernel, kernel, gain=gain)
        bias = self.weights(f"{name}.bias", channels, gain=0.1)
        inputs = [data, kernel_name, bias]
        result = self.node("Conv", inputs, name, pads=[pad] * 4, strides=[stride] * 2, kernel_shape=[kernel] * 2)
        self.channels[result] = channels
        return result

    def dense(self, data: str, units: int, inputs: int, name: str) -> str:
        operands = [data, self.weights(f"{name}.weight", units, inputs), self.weights(f"{name}.bias", units, gain=0.1)]
        return self.node("Gemm", operands, name, transB=1)

    def write(self, path: Path, inputs: dict[str, Sequence[int | str]], outputs: Sequence[str]) -> Path:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [
                helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
                for name, shape in inputs.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(onnx.shape_inference.infer_shapes(model), str(path))
        return path


def write_digits(path: Path, batch: int | str = 1) -> Path:
    """Write a network of two convolutions for images of 28 x 28, with a softmax at its end."""
    net = OnnxNetwork()
    net.channels["image"] = 1
    data = "image"
    for number, channels in ((1, 8), (2, 16)):
        data = net.conv(data, channels, 5, f"conv{number}", pad=2)
        data = net.node("Relu", [data], f"relu{number}")
        data = net.node("MaxPool", [data], f"pool{number}", kernel_shape=[2, 2], strides=[2, 2])
    data = net.dense(net.node("Flatten", [data], "flatten"), 10, 16 * 7 * 7, "classifier")
    result = net.node("Softmax", [data], "scores", axis=1)
    return net.write(path, {"image": (batch, 1, 28, 28)}, [result])


def write_two_parts(path: Path) -> Path:
    """Write two convolutions with a sine between them, which the accelerator does not have, and a sum behind."""
    net = OnnxNetwork()
    net.channels["x"] = 4
    first = net.conv("x", 8, 3, "first", pad=1)
    second = net.conv(net.node("Sin", [first], "bend"), 8, 3, "second", pad=1)
    return net.write(path, {"x": (1, 4, 12, 12)}, [net.node("Add", [first, second], "sum")])


def write_encoder(path: Path, rows: int = 20, size: int = 16, heads: int = 2) -> Path:
    """Write a block of a transformer's encoder, whose attention is of computed matrices alone."""
    net = OnnxNetwork()

    def shape(name: str, *values: int) -> str:
        net.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def dense(data: str, units: int, inputs: int, name: str) -> str:
        made = net.node("MatMul", [data, net.weights(f"{name}.weight", inputs, units, gain=0.8)], name)
        return net.node("Add", [made, net.weights(f"{name}.bias", units, gain=0.1)], f"{name}.add")

    def normal(data: str, name: str) -> str:
        scales = net.weights(f"{name}.scale", size), net.weights(f"{name}.shift", size)
        return net.node("LayerNormalization", [data, *scales], name, axis=-1, epsilon=1e-5)

    def head(name: str, *order: int) -> str:
        apart = net.node("Reshape", [dense(given, size, size, name), parts], f"{name}.parts")
        return net.node("Transpose", [apart], f"{name}.heads", perm=order)

    given, parts = normal("x", "norm1"), shape("parts", 1, rows, heads, size // heads)
    scores = net.node("MatMul", [head("query", 0, 2, 1, 3), head("key", 0, 2, 3, 1)], "scores")
    shares = net.node("Softmax", [scores], "shares", axis=-1)
    seen = net.node("MatMul", [shares, head("value", 0, 2, 1, 3)], "seen")
    seen = net.node(
        "Reshape", [net.node("Transpose", [seen], "back", perm=(0, 2, 1, 3)), shape("flat", 1, rows, size)], "r"
    )
    first = net.node("Add", ["x", dense(seen, size, size, "mixed")], "residual")
    wide = net.node("Relu", [dense(normal(first, "norm2"), 2 * size, size, "wide")], "relu")
    return net.write(
        path, {"x": (1, rows, size)}, [net.node("Add", [first, dense(wide, size, 2 * size, "narrow")], "sum")]
    )


def write_resnet18(path: Path, side: int = 224, classes: int = 1000) -> Path:
    """Write ResNet-18 with the batch normalisations folded into the convolutions."""
    net = OnnxNetwork()
    net.channels["image"] = 3
    data = net.node("Relu", [net.conv("image", 64, 7, "conv1", 2, 3)], "relu1")
    data = net.node("MaxPool", [data], "pool1", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, channels in enumerate(_STAGES, 1):
        for block in (0, 1):
            stride, name = (2 if stage > 1 and not block else 1), f"layer{stage}.{block}"
            inner = net.node("Relu", [net.conv(data, channels, 3, f"{name}.conv1", stride, 1)], f"{name}.relu1")
            inner = net.conv(inner, channels, 3, f"{name}.conv2", pad=1, gain=0.3)
            if stride > 1:
                data = net.conv(data, channels, 1, f"{name}.downsample", stride, gain=0.6)
            data = net.node("Relu", [net.node("Add", [inner, data], f"{name}.add")], f"{name}.relu2")
    data = net.node("Flatten", [net.node("GlobalAveragePool", [data], "pool")], "flatten")
    return net.write(path, {"image": (1, 3, side, side)}, [net.dense(data, classes, 512, "fc")])
