"""A MobileNet V2-like network with random weights, in float32 and as int8 QDQ: real shapes, no training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from nnhal.arrays import Array

INPUT = "image"
SHAPE = (1, 3, 224, 224)
# Each row is a run of inverted residual blocks: expansion, channels, repetitions, stride of the first.
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_CALIBRATION_IMAGES = 2


class _GraphBuilder:
    """Builds a graph from nodes and weights."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        fan_in = int(np.prod(shape[1:])) or 1
        values = self._random.standard_normal(shape) * np.sqrt(2 / fan_in)
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def convolution(
        self, value: str, channels: tuple[int, int], size: int, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> str:
        into, out = channels
        number = len(self.nodes)
        result = self.node(
            "Conv",
            [value, self.weight(f"w{number}", out, into // groups, size, size), self.weight(f"b{number}", out)],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=groups,
        )
        return self.node("Clip", [result, "zero", "six"]) if relu else result


def mobilenet_v2(seed: int = 0) -> onnx.ModelProto:
    """The network in float32: 300 million multiply-adds, 3.5 million weights."""
    graph = _GraphBuilder(seed)
    graph.weights += [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("zero", 0), ("six", 6))
    ]
    value, width = graph.convolution(INPUT, (3, 32), 3, stride=2), 32
    for expansion, channels, repetitions, first_stride in BLOCKS:
        for repetition in range(repetitions):
            stride = first_stride if repetition == 0 else 1
            value, width = _block(graph, value, width, channels, expansion, stride), channels
    value = graph.convolution(value, (width, 1280), 1)
    value = graph.node("GlobalAveragePool", [value])
    value = graph.node("Flatten", [value])
    value = graph.node("Gemm", [value, graph.weight("head", 1000, 1280), graph.weight("head_bias", 1000)], transB=1)
    value = graph.node("Softmax", [value], axis=1)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "mobilenet_v2",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 1000])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=onnx.IR_VERSION_2023_5_5,
    )
    onnx.checker.check_model(model)
    return model


def _block(graph: _GraphBuilder, value: str, width: int, channels: int, expansion: int, stride: int) -> str:
    """An inverted residual: expand, filter each channel, project; added to its input if the shapes are equal."""
    wide = width * expansion
    inner = graph.convolution(value, (width, wide), 1) if expansion > 1 else value
    inner = graph.convolution(inner, (wide, wide), 3, stride, groups=wide)
    inner = graph.convolution(inner, (wide, channels), 1, relu=False)
    return graph.node("Add", [value, inner]) if stride == 1 and width == channels else inner


class _Calibration(CalibrationDataReader):
    """Random images for calibration."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        images = (random.random(SHAPE, np.float32) for _ in range(_CALIBRATION_IMAGES))
        self._feeds: Iterator[dict[str, Array]] = iter([{INPUT: image} for image in images])

    def get_next(self) -> dict[str, Array]:
        """The next image; None at the end."""
        return next(self._feeds, {})


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """An int8 QDQ version: activations uint8, weights int8 with one scale for each output channel."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        source, target = Path(directory) / "float.onnx", Path(directory) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            target,
            _Calibration(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(target)
