"""Subgraphs of mlip in few lines: partitions of graphs whose layouts are converted, random ones, a worked example."""

from __future__ import annotations

import numpy as np

from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.flow_partition import FlowPartition
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, SourceNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.partition.cutting import cut_out, merge_regions
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def cut(graph: FlowGraph, beyond_public: bool = True) -> FlowPartition:
    """Return the partition of a graph whose layouts are converted, with nothing reverted."""
    found = match_composites(graph, beyond_public)
    return FlowPartition(graph, tuple(cut_out(graph, merge_regions(graph, found.kernels))), found.objections)


def described(graph: FlowGraph, beyond_public: bool = True) -> SubgraphFiles:
    partition = cut(graph, beyond_public)
    assert [subgraph.number for subgraph in partition.subgraphs] == [0], partition.objections
    return describe(partition, partition.subgraphs[0])


def random_graph(seed: int) -> FlowGraph:
    """Return a graph of some random layers in NHWC, all of them the accelerator's beyond the public rules."""
    g = GraphOf("NHWC", seed)
    random = np.random.default_rng(seed)
    images = [g.input(1, 8, 8, int(random.choice([4, 8])))]
    for _ in range(int(random.integers(2, 9))):
        images.append(_random_layer(g, random, images))
    flat = g.flatten(images[-1])
    scores = g.relu(g.bias(g.dense(flat, int(random.integers(1, 9)))))
    read = g.build(scores).uses()
    return g.build(scores, *(image for image in images[1:] if not read[image] or random.random() < 0.1))


def _random_layer(g: GraphOf, random: np.random.Generator, images: list[str]) -> str:
    data = str(random.choice(images))
    side, channels = g.shape(data)[1], g.shape(data)[3]
    kernel = min(3, side)
    match int(random.integers(10)):
        case 0:
            return g.relu(g.batch_norm(g.bias(g.conv(data, 8, kernel, pad=int(random.integers(2))))))
        case 1:
            return g.clip(g.conv(data, channels, kernel, pad=1, groups=channels), 0.0, float(random.integers(1, 7)))
        case 2:
            return g.bias(g.conv(g.pad(data, (0, 1, 1, 0)), 4, 1, stride=int(random.integers(1, 3))))
        case 3:
            padded = g.pad(data, (1, 0, 0, 1)) if random.random() < 0.5 else data
            return g.max_pool(padded, min(2, side), 1, int(random.integers(2)), ceil_mode=bool(random.integers(2)))
        case 4:
            own, counted = int(random.integers(2)), bool(random.integers(2))
            return g.avg_pool(g.pad(data, (1, 1, 0, 1)), kernel, 2, own if side > 2 else 0, count_include_pad=counted)
        case 5:
            return g.relu(g.op("add", data, g.random_constant(*([1] * int(random.integers(3))), channels)))
        case 6:
            return g.relu(g.op("add", data, data))
        case 7:
            same = [image for image in images if g.shape(image)[:3] == g.shape(data)[:3]]
            return g.concat(data, *same, g.random_constant(*g.shape(data)))
        case 8:
            return g.global_avg_pool(data)
    return g.transpose(g.pad(data, (1, 0, 0, 1)), 0, 2, 1, 3)


def worked_graph() -> FlowGraph:
    """Return x (1,2,4,4), conv 3x3 of 4 channels with pad, bias, relu, max pool 2x2, flatten, dense 3."""
    builder = FlowGraphBuilder()

    def add(operator: str, *inputs: str, name: str = "", **attributes: object) -> str:
        sources = (SourceNode(0, name, operator.title()),) if name else ()
        return builder.add(operator, inputs, attributes, sources, name)  # type: ignore[arg-type]

    random = np.random.default_rng(0)
    weights = np.clip(random.normal(0, 0.2, (4, 3, 3, 2)), -0.75, 0.5).astype(np.float32)
    weights.flat[:2] = -0.75, 0.5
    dense = np.clip(random.normal(0, 0.2, (3, 16)), -1, 0.875).astype(np.float32)
    dense.flat[:2] = -1, 0.875
    x = builder.input("x", (1, 2, 4, 4))
    data = add(Operator.LAYOUT_TRANSFORM, x, src_layout="NCHW", dst_layout="NHWC")
    data = add(
        Operator.CONV2D,
        data,
        builder.constant("w", weights),
        name="first",
        strides=(1, 1),
        padding=(1, 1, 1, 1),
        dilation=(1, 1),
        groups=1,
        channels=4,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="OHWI",
    )
    bias = builder.constant("b", np.array([0.5, -0.25, 0, 1], np.float32).reshape(1, 1, 1, 4))
    data = add(Operator.RELU, add(Operator.ADD, data, bias, name="first_bias"), name="first_relu")
    window = {"pool_size": (2, 2), "strides": (2, 2), "dilation": (1, 1), "padding": (0, 0, 0, 0), "ceil_mode": False}
    data = add(Operator.MAX_POOL2D, data, name="pooled", layout="NHWC", **window)
    data = add(Operator.LAYOUT_TRANSFORM, data, src_layout="NHWC", dst_layout="NCHW")
    data = add(Operator.BATCH_FLATTEN, data, name="flat")
    data = add(Operator.DENSE, data, builder.constant("d", dense), name="scores")
    return builder.build({"scores": data})
