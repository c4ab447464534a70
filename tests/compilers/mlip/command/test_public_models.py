"""ONNX models by the public rules: outcomes that were derived by hand, and the results of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from nnhal.arrays import Array
from nnhal_mlip.flow.flow_partition import FlowOptions
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import random_inputs
from tests.support.flow_outcomes import evaluate_steps, host_operators, publicly, subgraph_outcomes
from tests.support.onnx_flow import as_it_is, node
from tests.support.onnx_models import by_onnxruntime, onnx_model

LT = "layout_transform"
PAIRS = [2, 2]
ROUND = [0, 0, 1, 1, 0, 0, 1, 1]


class Chain:
    """A model in which each operator reads what the one before it computes, from an image of (1, 4, 8, 8) on."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.last = list(shape or (1, 4, 8, 8)), "x"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.random = np.random.default_rng(0)

    def __call__(self, op_type: str, *operands: Array | str, last: int = 0, **attributes: Any) -> Chain:
        """Add an operator; ``last`` is the position of what it reads of the chain."""
        names = [each if isinstance(each, str) else f"c{len(self.constants) + i}" for i, each in enumerate(operands)]
        arrays = zip(names, operands, strict=True)
        self.constants.update({name: each for name, each in arrays if not isinstance(each, str)})
        names.insert(last, self.last)
        self.last = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(node(op_type, names, [self.last], name=self.last, **attributes))
        return self

    def conv(self, channels: int = 4, kernel: int = 3, inner: int = 4, **attributes: Any) -> Chain:
        return self("Conv", self.array(channels, inner, kernel, kernel) / 5, **attributes)

    def array(self, *shape: int) -> Array:
        return self.random.normal(0, 1, shape).astype(np.float32)

    def norm(self, channels: int = 4) -> Chain:
        statistics = [self.random.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
        return self("BatchNormalization", *statistics)

    def model(self) -> onnx.ModelProto:
        return onnx_model(self.nodes, {"x": self.shape}, [self.last], self.constants, 13)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


CASES: dict[str, tuple[Chain, list[str], str]] = {
    "relu before batch norm": (Chain().conv()("Relu").norm(), [f"{LT} Conv2D"], f"batch_norm {LT}"),
    "two relus": (Chain().conv().norm()("Relu")("Relu"), [f"{LT} Conv2D"], f"{LT} relu"),
    "two biases": (
        Chain()("Conv", np.ones((4, 4, 3, 3), np.float32), np.ones(4, np.float32))("Add", np.ones((4, 1, 1), "f4")),
        [f"{LT} Conv2D Sum2D"],
        LT,
    ),
    "a constant on the left": (Chain().conv()("Add", np.ones((1, 4, 1, 1), "f4"), last=1), [f"{LT} Conv2D Sum2D"], LT),
    "a constant of rows and columns": (Chain().conv()("Add", np.eye(6, dtype="f4")), [f"{LT} Conv2D Sum2D"], LT),
    "pad, then max pool": (
        Chain()("Pad", integers(*ROUND))("MaxPool", kernel_shape=PAIRS).conv(),
        [f"{LT} Maxpool2D Conv2D"],
        f"{LT} pad",
    ),
    "pad of channels": (
        Chain().conv()("Pad", integers(0, 1, 0, 0, 0, 1, 0, 0)).conv(inner=6),
        [f"{LT} Conv2D", "Conv2D"],
        f"{LT} pad",
    ),
    "reshape between": (
        Chain().conv()("Reshape", integers(1, 16, 3, 3)).conv(2, 1, 16),
        [f"{LT} Conv2D", f"reshape {LT} Conv2D"],
        f"{LT} {LT}",
    ),
    "flatten of two axes": (
        Chain().conv()("Flatten", axis=2)("MatMul", np.ones((36, 3), np.float32)),
        [f"{LT} Conv2D", "reshape FC"],
        LT,
    ),
    "squeeze and unsqueeze": (
        Chain().conv()("GlobalAveragePool")("Squeeze", integers(2, 3))("Unsqueeze", integers(2, 3)).conv(2, 1),
        [f"{LT} Conv2D GlobalAvgpool2D squeeze reshape {LT} Conv2D"],
        LT,
    ),
    "average of two images": (
        Chain(2, 4, 8, 8).conv()("GlobalAveragePool")("Flatten")("MatMul", np.ones((4, 3), np.float32)),
        [f"{LT} Conv2D", "nn.batch_flatten FC"],
        f"global_avg_pool2d {LT}",
    ),
    "decoder": (
        Chain(1, 16)("MatMul", np.ones((16, 64), np.float32))("Reshape", integers(0, 4, 4, -1)).conv(),
        [f"FC reshape {LT} Conv2D"],
        LT,
    ),
    "what vanishes": (
        Chain().conv()("Dropout")("Identity").norm()("Add", np.zeros((), "f4"))("Relu")("Flatten")("Dropout"),
        [f"{LT} Conv2D"],
        f"batch_flatten {LT}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_outcomes_and_results(name: str) -> None:
    chain, layers, host = CASES[name]
    model = chain.model()
    graph = as_it_is(model)
    inputs = random_inputs(graph)
    (wanted,) = by_onnxruntime(model, inputs)
    found = publicly(graph)
    assert [" ".join(each.layers) for each in subgraph_outcomes(found)] == layers
    assert host_operators(found) == host.split()
    for each in (found, partition(graph), partition(graph, FlowOptions(keep=1))):
        (result,) = evaluate_steps(each, inputs).values()
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
