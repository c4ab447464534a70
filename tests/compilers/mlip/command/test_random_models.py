"""Random networks compute what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from nnhal.arrays import Array
from tests.support.onnx_flow import as_devices_see_it, checked, node
from tests.support.onnx_models import onnx_model


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int) -> None:
    model = random_network(np.random.default_rng(seed))
    checked(model, 1e-4)
    as_devices_see_it(model, 1e-4)


def random_network(generator: np.random.Generator) -> onnx.ModelProto:
    """A network of some layers on an image, and a classifier."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {}
    shape = [int(generator.integers(1, 3)), int(generator.integers(1, 5)), 12, 12]
    first = list(shape)
    last = "x"

    def layer(op_type: str, *given: Array, others: Sequence[str] = (), **attributes: Any) -> str:
        names = [f"k{len(constants) + i}" for i in range(len(given))]
        constants.update(zip(names, given, strict=True))
        nodes.append(node(op_type, [last, *others, *names], [f"t{len(nodes)}"], **attributes))
        return f"t{len(nodes) - 1}"

    for _ in range(int(generator.integers(2, 7))):
        channels = shape[1]
        match generator.integers(9):
            case 0 | 1:
                made, kernel = int(generator.integers(1, 6)), int(generator.choice([1, 3]))
                weight = generator.normal(0, 0.5, (made, channels, kernel, kernel)).astype(np.float32)
                bias = generator.normal(0, 1, made).astype(np.float32)
                last = layer("Conv", weight, bias, pads=[kernel // 2] * 4)
                shape[1] = made
            case 2:
                weight = generator.normal(0, 0.5, (channels, 1, 3, 3)).astype(np.float32)
                last = layer("Conv", weight, group=channels, pads=[1] * 4)
            case 3:
                parameters = [generator.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
                last = layer("BatchNormalization", *parameters)
            case 4:
                last = layer(str(generator.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Dropout", "Identity"])))
            case 5:
                last = layer(str(generator.choice(["MaxPool", "AveragePool"])), kernel_shape=[3, 3], pads=[1] * 4)
            case 6:
                last = layer("Add", others=[layer("Relu")])
            case 7:
                last = layer("Concat", others=[layer("Tanh")], axis=1)
                shape[1] *= 2
            case 8:
                last = layer("Transpose", perm=[0, 1, 3, 2])
    last = layer("Flatten")
    last = layer("Gemm", generator.normal(0, 0.1, (3, shape[1] * 144)).astype(np.float32), transB=1)
    last = layer("Softmax")
    return onnx_model(nodes, {"x": first}, [last], constants)
