"""Whatever the partition gives to the accelerator compiles, and computes what the graph does."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.compiler.compiler import compile_files
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import read_profile
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.random_flow_graphs import random_flow_graph

ALL = FlowOptions(revert=False)
TOLERANCE = 1e-2
"""Of fp16, to the largest value."""


def check_on_simulator(graph: FlowGraph, options: FlowOptions) -> FlowPartition:
    """Run each subgraph on its own, on what the graph has for its inputs."""
    found = partition(graph, options)
    values = evaluate(found.graph, random_inputs(graph))
    for subgraph in found.subgraphs:
        simulator = Simulator(compile_files(describe(found, subgraph)).binary, read_profile("cn106"))
        outputs = simulator.run([values[name] for name in subgraph.inputs]).outputs
        for name, output in zip(subgraph.outputs, outputs, strict=True):
            wanted = values[name]
            np.testing.assert_allclose(output.reshape(wanted.shape), wanted, atol=TOLERANCE * np.abs(wanted).max())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("options", [ALL, FlowOptions(beyond_public=False, revert=False)], ids=["beyond", "public"])
@pytest.mark.parametrize("seed", range(10))
def test_random_graphs(seed: int, options: FlowOptions) -> None:
    check_on_simulator(random_flow_graph(seed, 8), options)


@pytest.mark.parametrize("axes", [(2, 0, 1, 3), (0, 3, 2, 1), (3, 1, 0, 2)])
def test_transpositions_of_any_axes_are_taken(axes: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    assert not check_on_simulator(g.build(g.transpose(g.input(2, 5, 7, 3), *axes)), ALL).host


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_concatenations_along_any_axis(axis: int) -> None:
    g = GraphOf("NHWC")
    x = g.input(2, 5, 4, 3)
    assert not check_on_simulator(g.build(g.concat(x, g.input(2, 5, 4, 3, name="y"), x, axis=axis)), ALL).host


@pytest.mark.parametrize(
    ("left", "right"), [((2, 5), (5,)), ((5,), (2, 5)), ((2, 3, 4, 5), (4, 1)), ((1, 3, 1, 5), (2, 1, 4, 1))]
)
def test_sums_that_broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    assert not check_on_simulator(g.build(g.op("add", g.input(*left), g.input(*right, name="y"))), ALL).host


@pytest.mark.parametrize("widths", [(0, 0, 1, 2, 0, 1, 3, 0), (1, 1, 0, 0, 0, 0, 0, 0), (1, 0, 2, 2), (1, 2)])
def test_pads_around_any_axis(widths: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    x = g.input(*(3, 4, 5, 2)[: len(widths) // 2])
    padded = g.op("pad", x, pad_width=widths, pad_value=0.0, pad_mode="constant")
    assert not check_on_simulator(g.build(padded), ALL).host


@pytest.mark.parametrize(("channels", "made", "groups"), [(4, 12, 4), (12, 8, 4), (8, 8, 8)])
def test_convolutions_in_groups(channels: int, made: int, groups: int) -> None:
    g = GraphOf()
    graph = g.build(g.relu(g.bias(g.conv(g.input(2, channels, 6, 6), made, pad=1, groups=groups))))
    assert not check_on_simulator(graph, ALL).host


def test_zeros_before_a_pool_of_negative_values_are_values() -> None:
    g = GraphOf("NHWC")
    negative = g.clip(g.input(1, 6, 6, 4), -2.0, -1.0)
    found = check_on_simulator(g.build(g.max_pool(g.pad(negative, 1), 3, 2)), ALL)
    assert [len(kernel.nodes) for kernel in found.subgraphs[0].kernels] == [1, 2]


def test_images_in_channels_first() -> None:
    g = GraphOf()
    x = g.input(4, 3, 6, 6)
    pooled = g.op("global_max_pool2d", x, layout="NCHW")
    graph = g.build(pooled, g.global_avg_pool(x), g.avg_pool(x, 3, 2, 1, ceil_mode=True))
    assert not check_on_simulator(graph, ALL).host


@pytest.mark.parametrize("shape", [(8,), (2, 8), (1, 20, 8), (2, 3, 5, 8)])
def test_dense_layers_of_any_rank(shape: tuple[int, ...]) -> None:
    g = GraphOf()
    assert not check_on_simulator(g.build(g.dense(g.input(*shape), 5)), ALL).host


def test_graphs_of_float16() -> None:
    g = GraphOf(element_type=np.float16)
    value = g.max_pool(g.relu(g.batch_norm(g.bias(g.conv(g.input(1, 3, 8, 8), 8, pad=1)))))
    graph = g.build(g.bias(g.dense(g.flatten(value), 5)))
    found = check_on_simulator(graph, ALL)
    assert not found.host
    assert all("float16" in kernel.beyond_public[0] for each in found.subgraphs for kernel in each.kernels)


def test_tensors_of_one_axis_have_no_batch() -> None:
    g = GraphOf()
    x = g.input(64)
    total = g.op("add", x, g.random_constant(64))
    graph = g.build(g.reshape(g.concat(g.relu(x), total, axis=0), 2, 64))
    assert not check_on_simulator(graph, ALL).host


def test_pools_with_windows_without_data_stay_on_the_host() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 9, 8, 4), 4, 1)
    most, mean = g.max_pool(x, 2, 1, 2), g.avg_pool(x, 2, 1, 2)
    ceiled = g.avg_pool(x, 3, 2, 1, ceil_mode=True, count_include_pad=True)
    found = check_on_simulator(g.build(most, mean, ceiled), ALL)
    assert [found.objections[name].check for name in (most, mean)] == ["max_pool2d.window", "avg_pool2d.window"]
    assert ceiled not in found.objections


def test_a_pad_may_fill_windows_of_an_average() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.avg_pool(g.pad(g.input(1, 8, 8, 4), 2), 2, 1))
    assert not check_on_simulator(graph, ALL).host
