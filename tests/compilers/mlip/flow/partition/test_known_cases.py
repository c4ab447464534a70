"""Published outcomes of the public flow, and outcomes that follow from its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.flow_networks import resnet18
from tests.support.flow_outcomes import (
    SubgraphOutcome,
    evaluate_outputs,
    evaluate_steps,
    host_operators,
    publicly,
    subgraph_outcomes,
)

LT = "layout_transform"
CONV = (LT, "Conv2D")


def fused(*, bias: bool = False, norm: bool = False, sigmoid: bool = False) -> FlowGraph:
    g = GraphOf()
    value = g.conv(g.input(1, 3, 32, 32, name="data"), 8, pad=1)
    value = g.bias(value) if bias else value
    value = g.batch_norm(value) if norm else value
    value = g.op("sigmoid", value) if sigmoid else value
    value = g.conv(g.relu(value), 8, pad=1)
    value = g.op("sigmoid", value) if sigmoid else value
    return g.build(g.relu(value))


def fused_sum() -> FlowGraph:
    g = GraphOf()
    norm = g.batch_norm(g.bias(g.conv(g.input(1, 32, 8, 8), 16)))
    return g.build(g.relu(g.op("add", norm, g.input(1, 16, 6, 6, name="data1"))))


def dense(batch: int, inner: int, units: int) -> FlowGraph:
    g = GraphOf()
    return g.build(g.dense(g.input(batch, inner), units))


def squeezed() -> FlowGraph:
    g = GraphOf()
    conv = g.conv(g.input(1, 3, 32, 32), 16, stride=2, pad=1)
    return g.build(g.squeeze(g.reshape(conv, 1, 1, 16, 16, 16), 0, 1))


def mnist() -> FlowGraph:
    g = GraphOf()
    value = g.input(1, 1, 28, 28, name="permute_input")
    for channels in (64, 32):
        value = g.max_pool(g.relu(g.bias(g.conv(value, channels, 2, pad=(0, 0, 1, 1)))))
    value = g.flatten(g.transpose(value, 0, 2, 3, 1))
    for units in (256, 10):
        value = g.op("add", g.dense(value, units), g.random_constant(units))
    return g.build(value)


def convolution(groups: int = 1, channels: int = 8, element_type: str = "float32") -> FlowGraph:
    g = GraphOf(element_type=element_type)
    return g.build(g.conv(g.input(1, 8, 32, 32), channels, pad=1, groups=groups))


def dilated() -> FlowGraph:
    g = GraphOf()
    return g.build(g.conv(g.input(1, 3, 64, 64), 8, 7, pad=6, dilation=2))


def padded(*, behind_convolution: bool) -> FlowGraph:
    g = GraphOf()
    value = g.input(1, 8, 32, 32)
    value = g.conv(value, 16, pad=1) if behind_convolution else value
    return g.build(g.conv(g.pad(value, 1), 16))


def clipped() -> FlowGraph:
    g = GraphOf()
    value = g.clip(g.conv(g.input(1, 8, 32, 32), 16, pad=1))
    return g.build(g.conv(value, 8, pad=1))


def residual() -> FlowGraph:
    g = GraphOf()
    one = g.relu(g.conv(g.input(1, 8, 32, 32), 8, pad=1))
    return g.build(g.relu(g.op("add", g.conv(one, 8, pad=1), one)))


def channels_last() -> FlowGraph:
    g = GraphOf("NHWC")
    return g.build(g.relu(g.conv(g.input(1, 32, 32, 8), 16, pad=1)))


def pool_alone() -> FlowGraph:
    g = GraphOf()
    return g.build(g.max_pool(g.input(1, 8, 32, 32)))


def reshape_alone() -> FlowGraph:
    g = GraphOf()
    return g.build(g.reshape(g.input(1, 64), 1, 4, 4, 4))


def pool_of_two() -> FlowGraph:
    g = GraphOf()
    return g.build(g.max_pool(g.conv(g.input(2, 8, 16, 16), 8, pad=1)))


def reshaped_dense() -> FlowGraph:
    g = GraphOf()
    conv = g.conv(g.input(1, 8, 32, 32), 4, pad=1)
    return g.build(g.dense(g.reshape(conv, 1, 4096), 10))


def averaged_dense() -> FlowGraph:
    g = GraphOf()
    conv = g.conv(g.input(1, 8, 32, 32), 16, pad=1)
    return g.build(g.dense(g.squeeze(g.global_avg_pool(conv), 2, 3), 10))


def perceptron() -> FlowGraph:
    g = GraphOf()
    value = g.relu(g.bias(g.dense(g.input(1, 64), 32)))
    return g.build(g.softmax(g.bias(g.dense(value, 10))))


def dense_siblings() -> FlowGraph:
    g = GraphOf()
    x = g.input(1, 64)
    return g.build(g.op("add", g.dense(x, 10), g.dense(x, 10)))


def host_tail() -> FlowGraph:
    g = GraphOf()
    value = g.global_avg_pool(g.relu(g.conv(g.input(1, 8, 32, 32), 16, pad=1)))
    return g.build(g.dense(g.softmax(g.flatten(value)), 4))


def inception() -> FlowGraph:
    g = GraphOf()
    x = g.input(1, 8, 32, 32)
    branches = [g.conv(x, 8, 1), g.conv(x, 8, 3, pad=1), g.conv(x, 8, 5, pad=2), g.conv(g.max_pool(x, 3, 1, 1), 8, 1)]
    return g.build(g.concat(*branches))


def two_inputs() -> FlowGraph:
    g = GraphOf()
    one = g.conv(g.input(1, 4, 16, 16), 8, pad=1)
    return g.build(g.concat(one, g.conv(g.input(1, 4, 16, 16, name="z"), 8, pad=1)))


FUSED = [SubgraphOutcome((*CONV, "Conv2D"))], [LT]
APART = [SubgraphOutcome(CONV), SubgraphOutcome(("Conv2D",))]
ALONE = [SubgraphOutcome(CONV)], [LT]
CASES: dict[str, tuple[Callable[[], FlowGraph], Sequence[SubgraphOutcome], list[str] | None]] = {
    "bias": (lambda: fused(bias=True), *FUSED),
    "norm": (lambda: fused(norm=True), *FUSED),
    "bias and norm": (lambda: fused(bias=True, norm=True), *FUSED),
    "sigmoid between": (lambda: fused(norm=True, sigmoid=True), APART, [LT, "relu", "relu", "sigmoid", "sigmoid"]),
    "bias and sigmoid": (
        lambda: fused(bias=True, norm=True, sigmoid=True),
        APART,
        [LT, "relu", "relu", "sigmoid", "sigmoid"],
    ),
    "sum with an input": (fused_sum, [SubgraphOutcome((*CONV, LT, "Sum2D"), 2)], [LT]),
    "dense": (lambda: dense(1, 16, 16), [SubgraphOutcome(("FC",))], []),
    "squeeze": (squeezed, [SubgraphOutcome(CONV)], [LT, "reshape", "squeeze"]),
    "mnist": (
        mnist,
        [SubgraphOutcome((*CONV, "Maxpool2D", "Conv2D", "Maxpool2D", "nn.batch_flatten", "FC", "FC"))],
        [],
    ),
    "two groups": (lambda: convolution(groups=2), [], None),
    "depthwise": (lambda: convolution(groups=8), *ALONE),
    "float16": (lambda: convolution(channels=16, element_type="float16"), [], None),
    "dilated": (dilated, *ALONE),
    "pad first": (lambda: padded(behind_convolution=False), [SubgraphOutcome(CONV)], [LT, "pad"]),
    "pad between": (lambda: padded(behind_convolution=True), *FUSED),
    "clip": (clipped, APART, ["clip", LT]),
    "residual": (residual, [SubgraphOutcome((*CONV, "Conv2D", "Sum2D"))], [LT]),
    "channels last": (channels_last, [SubgraphOutcome(("Conv2D",))], []),
    "pool alone": (pool_alone, [], None),
    "reshape alone": (reshape_alone, [], ["reshape"]),
    "pool of two": (pool_of_two, [SubgraphOutcome((*CONV, "Maxpool2D"))], [LT]),
    "reshape and dense": (reshaped_dense, [SubgraphOutcome((*CONV, "FC"))], []),
    "average and dense": (averaged_dense, [SubgraphOutcome((*CONV, "GlobalAvgpool2D", "squeeze", "FC"))], []),
    "perceptron": (perceptron, [SubgraphOutcome(("FC", "FC"))], ["softmax"]),
    "siblings": (dense_siblings, [SubgraphOutcome(("FC",)), SubgraphOutcome(("FC",))], ["add"]),
    "host between": (
        host_tail,
        [SubgraphOutcome((*CONV, "GlobalAvgpool2D")), SubgraphOutcome(("FC",))],
        ["batch_flatten", LT, "softmax"],
    ),
    "inception": (
        inception,
        [SubgraphOutcome((LT, "Conv2D", "Conv2D", "Conv2D", "Maxpool2D", "Conv2D", "Concat"))],
        [LT],
    ),
    "two inputs": (two_inputs, [SubgraphOutcome((*CONV, *CONV, "Concat"), 2)], [LT]),
    "batch of 64": (lambda: dense(64, 16, 8), [SubgraphOutcome(("FC",))], []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_known_case_has_these_subgraphs_and_host_operators(name: str) -> None:
    build, subgraphs, host = CASES[name]
    graph = build()
    found = publicly(graph)
    assert subgraph_outcomes(found) == list(subgraphs)
    if host is not None:
        assert host_operators(found) == sorted(host)
    assert set(found.objections) == {node.output for node in found.host}
    if graph.values[graph.inputs[0]].element_type == np.float32:
        inputs = random_inputs(graph)
        whole = evaluate_outputs(graph, inputs)
        for output, values in evaluate_steps(found, inputs).items():
            np.testing.assert_allclose(values, whole[output], rtol=1e-4, atol=1e-4)


def test_resnet18_is_one_subgraph_without_anything_on_the_host() -> None:
    found = publicly(resnet18(32))
    (subgraph,) = subgraph_outcomes(found)
    assert sorted(subgraph.layers) == sorted(
        [LT, *20 * ["Conv2D"], "Maxpool2D", *8 * ["Sum2D"], "GlobalAvgpool2D", "FC"]
    )
    assert (subgraph.inputs, subgraph.outputs, host_operators(found)) == (1, 1, [])
