"""Small convolutional networks of ONNX, of the kinds that people have, as floats and quantised by ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from nnhal.arrays import Array
from tests.support.onnx_models import onnx_model, random

SIDE = 32
IMAGE = (1, 3, SIDE, SIDE)
CLASSES = 10
_FROM_CORNERS: Mapping[str, Any] = {"coordinate_transformation_mode": "asymmetric"}
"""How pixels are resized."""


class Cnn:
    """Nodes and constants of a graph on one image ``x``, channels first."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.channels = {"x": IMAGE[1]}

    def add(self, kind: str, *inputs: str, channels: int = 0, **attributes: Any) -> str:
        """Add a node; its result has the channels of its first input unless others are given."""
        output = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"node_{output}", **attributes))
        self.channels[output] = channels or self.channels[inputs[0]]
        return output

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def conv(self, x: str, channels: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        """Convolve with SAME padding and a bias."""
        given = self.channels[x] // group
        weights = self._random.normal(size=(channels, given, kernel, kernel)) * np.sqrt(2 / given) / kernel
        inputs = [x, self._reals(weights), self._reals(self._random.normal(size=channels) / 10)]
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self.add("Conv", *inputs, channels=channels, group=group, **shape)

    def relu(self, x: str) -> str:
        """Clamp below 0."""
        return self.add("Relu", x)

    def relu6(self, x: str) -> str:
        """Clamp to 0 and 6."""
        return self.add("Clip", x, self._reals(0), self._reals(6))

    def max_pool(self, x: str, kernel: int = 3, stride: int = 2) -> str:
        """Pool with SAME padding."""
        return self.add("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def join(self, *parts: str) -> str:
        return self.add("Concat", *parts, axis=1, channels=sum(self.channels[part] for part in parts))

    def dense(self, x: str, given: int, units: int = CLASSES, transposed: int = 1) -> str:
        weights = self._random.normal(size=(units, given)) / np.sqrt(given)
        inputs = [x, self._reals(weights if transposed else weights.T), self._reals(self._random.normal(size=units))]
        return self.add("Gemm", *inputs, transB=transposed, channels=units)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def model(self, *outputs: str, opset: int = 13) -> onnx.ModelProto:
        return onnx_model(self.nodes, {"x": IMAGE}, outputs, self.constants, opset=opset)

    def _reals(self, values: Any) -> str:
        return self.constant(np.asarray(values, np.float32))


def resnet() -> onnx.ModelProto:
    """Residual blocks, a global average, and a matrix."""
    net = Cnn(0)
    x = net.max_pool(net.relu(net.conv("x", 16, 7, 2)))
    for channels, stride in ((16, 1), (32, 2)):
        y = net.conv(net.relu(net.conv(x, channels, stride=stride)), channels)
        x = net.relu(net.add("Add", y, x if stride == 1 else net.conv(x, channels, 1, stride)))
    return net.model(net.dense(net.add("Flatten", net.add("GlobalAveragePool", x)), 32))


def mobilenet() -> onnx.ModelProto:
    """Inverted residuals with Clip, a mean, and a matrix that is not transposed."""
    net = Cnn(1)
    x = net.relu6(net.conv("x", 16, 3, 2))
    for channels, stride in ((16, 1), (32, 2)):
        given = net.channels[x]
        y = net.relu6(net.conv(x, 2 * given, 1))
        y = net.conv(net.relu6(net.conv(y, 2 * given, 3, stride, group=2 * given)), channels, 1)
        x = net.add("Add", x, y) if stride == 1 else y
    return net.model(net.dense(net.add("ReduceMean", x, axes=[2, 3], keepdims=0), 32, transposed=0))


def inception() -> onnx.ModelProto:
    """Branches that are joined, pools, and an average over a window."""
    net = Cnn(2)
    x = net.relu(net.conv("x", 16, 3, 2))
    branches = [net.relu(net.conv(x, 16, kernel)) for kernel in (1, 3, 5)]
    pooled = net.conv(net.add("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4), 16, 1)
    x = net.max_pool(net.join(*branches, net.relu(pooled)))
    x = net.add("AveragePool", x, kernel_shape=[8, 8], strides=[8, 8])
    return net.model(net.dense(net.reshape(x, 1, -1), 64))


def detector() -> onnx.ModelProto:
    """Two scales with heads for boxes and scores, and the features themselves: three outputs."""
    net = Cnn(3)
    fine = net.relu(net.conv(net.relu(net.conv("x", 16, 3, 2)), 32, 3, 2))
    coarse = net.relu(net.conv(fine, 32, 3, 2))
    twice = net.constant(np.array([1, 1, 2, 2], np.float32))
    fine = net.join(fine, net.add("Resize", coarse, "", twice, mode="nearest", **_FROM_CORNERS, nearest_mode="floor"))

    def heads(size: int) -> str:
        rows = []
        for features in (fine, coarse):
            last = net.add("Transpose", net.conv(features, 4 * size), perm=[0, 2, 3, 1])
            rows.append(net.reshape(last, 1, -1, size))
        return net.add("Concat", *rows, axis=1)

    return net.model(heads(4), net.add("Sigmoid", heads(3)), coarse)


def flattened() -> onnx.ModelProto:
    """Two matrices behind an image that is flattened."""
    net = Cnn(4)
    x = net.relu(net.conv(net.relu(net.conv("x", 16, 3, 2)), 8, 3, 2))
    return net.model(net.dense(net.relu(net.dense(net.add("Flatten", x), 8 * 64, 24)), 24))


def upward() -> onnx.ModelProto:
    """Down and up again, with a transposed convolution and a bilinear resize."""
    net = Cnn(5)
    first = net.relu(net.conv("x", 16))
    second = net.relu(net.conv(first, 32, 3, 2))
    third = net.relu(net.conv(second, 16, 3, 2))
    weights = net.constant(random(16, 16, 2, 2, low=-0.3, high=0.3))
    up = net.add("ConvTranspose", third, weights, channels=16, kernel_shape=[2, 2], strides=[2, 2])
    x = net.relu(net.conv(net.join(up, second), 16))
    twice = net.constant(np.array([1, 1, 2, 2], np.float32))
    up = net.add("Resize", x, "", twice, mode="linear", **_FROM_CORNERS)
    return net.model(net.add("Sigmoid", net.conv(net.join(up, first), 1, 1)))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    network.__name__: network for network in (resnet, mobilenet, inception, detector, flattened, upward)
}


class _Images(CalibrationDataReader):
    def __init__(self, count: int = 4) -> None:
        self._left = [{"x": random(*IMAGE, seed=seed)} for seed in range(count)]

    def get_next(self) -> dict[str, Array]:
        return self._left.pop() if self._left else {}


def quantised(
    model: onnx.ModelProto,
    activations: QuantType = QuantType.QUInt8,
    weights: QuantType = QuantType.QInt8,
    per_channel: bool = True,
    form: QuantFormat = QuantFormat.QDQ,
    **options: bool,
) -> onnx.ModelProto:
    """Return a model as ONNX Runtime quantises it, with ranges from a few random images."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        given, made = Path(directory) / "floats.onnx", Path(directory) / "quantised.onnx"
        onnx.save(model, given)
        quantize_static(
            given,
            made,
            _Images(),
            quant_format=form,
            per_channel=per_channel,
            activation_type=activations,
            weight_type=weights,
            extra_options=options,
        )
        return onnx.load(made)


FORMS: Mapping[str, Mapping[str, Any]] = {
    "uint8": {},
    "int8": {"activations": QuantType.QInt8},
    "one scale": {"per_channel": False},
    "symmetric": {"activations": QuantType.QInt8, "per_channel": False, "ActivationSymmetric": True},
    "uint8 weights": {"weights": QuantType.QUInt8, "per_channel": False},
    "asymmetric weights": {"activations": QuantType.QInt8, "per_channel": False, "WeightSymmetric": False},
    "float biases": {"QuantizeBias": False},
    "operators": {"form": QuantFormat.QOperator, "per_channel": False},
}
"""Ways to quantise: the arguments of ``quantised``."""


def worst_of(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the largest difference of some tensors from others, relative to the largest value of each."""
    return max(
        float(np.abs(np.asarray(each, np.float64) - other).max() / np.abs(other).max())
        for each, other in zip(found, wanted, strict=True)
    )
