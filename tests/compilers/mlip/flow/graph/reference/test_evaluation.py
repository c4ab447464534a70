"""The reference computes each operator as its definition says, in any layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import exp
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowValue
from nnhal_mlip.flow.graph.operators import permutation
from nnhal_mlip.flow.graph.reference import evaluate
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.flow_networks import resnet18


def result(graph: FlowGraph, seed: int = 0) -> Array:
    """The only output of a graph, for random inputs."""
    (name,) = graph.outputs.values()
    return evaluate(graph, random_inputs(graph, seed))[name]


def convolved(
    data: Array,
    weight: Array,
    stride: tuple[int, int],
    pad: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Array:
    """A convolution of NCHW data with OIHW weights, element by element."""
    top, left, bottom, right = pad
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    outputs, inner, height, width = weight.shape
    rows = (padded.shape[2] - (height - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (padded.shape[3] - (width - 1) * dilation[1] - 1) // stride[1] + 1
    made = np.zeros((len(data), outputs, rows, columns))
    for n, o, y, x in itertools.product(*map(range, made.shape)):
        first = o // (outputs // groups) * inner
        for i, ky, kx in itertools.product(range(inner), range(height), range(width)):
            element = padded[n, first + i, y * stride[0] + ky * dilation[0], x * stride[1] + kx * dilation[1]]
            made[n, o, y, x] += element * weight[o, i, ky, kx]
    return made


@pytest.mark.parametrize("seed", range(24))
def test_convolutions_in_any_layout(seed: int) -> None:
    random = np.random.default_rng(seed)
    layout, kernel_layout = str(random.choice(["NCHW", "NHWC"])), str(random.choice(["OIHW", "HWIO", "OHWI"]))
    groups = int(random.choice([1, 1, 2, 3]))
    inner, outputs = int(random.integers(1, 3)), groups * int(random.integers(1, 3))
    kernel = (int(random.integers(1, 4)), int(random.integers(1, 4)))
    stride = (int(random.integers(1, 3)), int(random.integers(1, 4)))
    dilation = (int(random.integers(1, 3)), int(random.integers(1, 3)))
    pad = tuple(int(each) for each in random.integers(0, 3, 4))
    assert len(pad) == 4
    nchw = random.normal(0, 1, (2, inner * groups, 6, 7)).astype(np.float32)
    oihw = random.normal(0, 1, (outputs, inner, *kernel)).astype(np.float32)
    g = GraphOf(layout)
    data = g.input(*nchw.transpose(permutation("NCHW", layout)).shape)
    weight = g.constant(oihw.transpose(permutation("OIHW", kernel_layout)))
    made = g.conv(
        data, outputs, kernel, stride=stride, pad=pad, dilation=dilation, groups=groups,
        kernel_layout=kernel_layout, weight=weight,
    )  # fmt: skip
    graph = g.build(made)
    found = evaluate(graph, {data: nchw.transpose(permutation("NCHW", layout))})[made]
    assert found.shape == graph.shape(made)
    wanted = convolved(nchw, oihw, stride, pad, dilation, groups)
    np.testing.assert_allclose(found.transpose(permutation(layout, "NCHW")), wanted, rtol=1e-4, atol=1e-4)


def pooled(data: Array, graph: FlowGraph, name: str) -> Array:
    """A pool of NCHW data, window by window."""
    node = graph.producers()[name]
    (height, width), (down, across) = node.integers("pool_size"), node.integers("strides")
    (dy, dx), (top, left, bottom, right) = node.integers("dilation"), node.integers("padding")
    made = np.zeros(graph.shape(name))
    rows, columns = data.shape[2:]
    for n, c, y, x in itertools.product(*map(range, made.shape)):
        inside, counted = [], 0
        for ky, kx in itertools.product(range(height), range(width)):
            row, column = y * down + ky * dy - top, x * across + kx * dx - left
            counted += row < rows + bottom and column < columns + right
            if 0 <= row < rows and 0 <= column < columns:
                inside.append(data[n, c, row, column])
        if node.operator == "max_pool2d":
            made[n, c, y, x] = max(inside)
        else:
            made[n, c, y, x] = sum(inside) / (counted if node.integer("count_include_pad") else len(inside))
    return made


@pytest.mark.parametrize("seed", range(24))
def test_pools(seed: int) -> None:
    random = np.random.default_rng(seed)
    g = GraphOf()
    data = g.input(2, 2, int(random.integers(6, 9)), int(random.integers(6, 9)))
    attributes: dict[str, Any] = {
        "pool_size": (3, int(random.integers(2, 4))),
        "strides": (int(random.integers(1, 4)), int(random.integers(1, 4))),
        "dilation": (1, int(random.integers(1, 3))),
        "padding": tuple(int(each) for each in random.integers(0, 2, 4)),
        "ceil_mode": bool(random.integers(2)),
        "layout": "NCHW",
    }
    average = bool(random.integers(2))
    if average:
        attributes["count_include_pad"] = bool(random.integers(2))
    name = g.op("avg_pool2d" if average else "max_pool2d", data, **attributes)
    graph = g.build(name)
    inputs = random_inputs(graph, seed)
    np.testing.assert_allclose(evaluate(graph, inputs)[name], pooled(inputs[data], graph, name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["max_pool2d", "avg_pool2d", "global_avg_pool2d", "global_max_pool2d"])
def test_pools_in_nhwc_are_those_in_nchw(operator: str) -> None:
    found = []
    for layout in ("NCHW", "NHWC"):
        g = GraphOf("NCHW")
        data = g.input(2, 3, 7, 8)
        if layout == "NHWC":
            data = g.transpose(data, 0, 2, 3, 1)
        g.layout = layout
        if operator.startswith("global"):
            data = g.op(operator, data, layout=layout)
        else:
            pool = g.max_pool if operator == "max_pool2d" else g.avg_pool
            data = pool(data, (3, 2), (2, 1), (1, 0, 0, 1))
        found.append(result(g.build(g.transpose(data, 0, 3, 1, 2) if layout == "NHWC" else data)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_quantised_values_are_dequantised_and_results_are_not_quantised() -> None:
    b = FlowGraphBuilder()
    x = b.input("x", (1, 2), np.int8, (0.5,))
    w = b.constant("w", np.array([[1, 2], [3, 4]], np.int8), (0.1, 0.01), 0)
    bias = b.constant("b", np.array([10, 20], np.int32), (0.05, 0.005), 0)
    dense = b.add("dense", [x, w], results=[FlowValue((1, 2), np.dtype(np.int8), (0.2,))])
    y = b.add("bias_add", [dense, bias], {"axis": -1})
    values = evaluate(b.build({"y": y}), {"x": np.array([[2, -4]], np.int8)})
    np.testing.assert_allclose(values["x"], [[1.0, -2.0]])
    np.testing.assert_allclose(values[y], [[0.1 - 0.4 + 0.5, 0.03 - 0.08 + 0.1]], rtol=1e-5)
    assert {array.dtype for array in values.values()} == {np.dtype(np.float32)}


def test_float16_is_computed_in_float32_and_given_to_the_host_as_float16() -> None:
    seen = []

    def host(arrays: Sequence[Array]) -> list[Array]:
        (array,) = arrays
        seen.append(array.dtype)
        return [array]

    b = FlowGraphBuilder()
    x = b.input("x", (1,), np.float16)
    total = b.add("add", [x, b.constant("c", np.array([1.5], np.float16))])
    y = b.add("onnx.Same", [total], evaluate=host, results=[FlowValue((1,), np.dtype(np.float16))])
    values = evaluate(b.build({"y": y}), {"x": np.array([2048], np.float16)})
    assert values[total].tolist() == [2049.5]
    assert values[y].tolist() == [2050.0]
    assert seen == [np.float16]


def test_integers_without_scales_stay_as_they_are() -> None:
    b = FlowGraphBuilder()
    x = b.input("x", (3,), np.int64)
    y = b.add("onnx.Neg", [x], evaluate=lambda arrays: [-arrays[0]], results=[FlowValue((3,), np.dtype(np.int64))])
    values = evaluate(b.build({"y": y}), {"x": np.array([1, 2**60, 3])})
    assert values[y].tolist() == [-1, -(2**60), -3]


def test_activations_at_their_ends() -> None:
    g = GraphOf()
    x = g.input(5)
    made = [g.op("sigmoid", x), g.op("leaky_relu", x, alpha=0.5), g.clip(x, -1.0, float("inf")), g.softmax(x, 0)]
    values = evaluate(g.build(*made), {"x": np.array([-1e4, -2, 0, 2, 1e4], np.float32)})
    np.testing.assert_allclose(values[made[0]], [0, 1 / (1 + exp(2)), 0.5, 1 / (1 + exp(-2)), 1], rtol=1e-5, atol=1e-7)
    assert values[made[1]].tolist() == [-5000, -1, 0, 2, 10000]
    assert values[made[2]].tolist() == [-1, -1, 0, 2, 10000]
    assert values[made[3]].tolist() == [0, 0, 0, 0, 1]


def test_inputs_of_another_name_or_shape_are_refused() -> None:
    g = GraphOf()
    graph = g.build(g.relu(g.input(1, 3)))
    with pytest.raises(FlowError, match=r"got inputs \['z'\], expected \['x'\]"):
        evaluate(graph, {"z": np.zeros((1, 3), np.float32)})
    with pytest.raises(FlowError, match=r"input 'x': got shape \[3\], expected \[1, 3\]"):
        evaluate(graph, {"x": np.zeros(3, np.float32)})


def test_a_network_in_both_layouts_computes_the_same() -> None:
    first, last = resnet18(32, 10), resnet18(32, 10, layout="NHWC")
    image = np.random.default_rng(1).normal(0, 1, (1, 3, 32, 32)).astype(np.float32)
    wanted = evaluate(first, {"x": image})["logits"]
    found = evaluate(last, {"x": image.transpose(0, 2, 3, 1)})["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert 0.1 < np.abs(wanted).max() < 100
