"""Results of layers, kernel by kernel, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnhal_mlip.compiler.compiler import compile_files
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.reading import read_layers
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.layers import PadAttributes
from nnhal_mlip.flow.flow_partition import FlowOptions
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.program.program import TaskKind
from tests.support.flow_graphs import GraphOf
from tests.support.mlip_compiling import GraphInFiles, check_graph

IMAGE = (1, 4, 9, 7)


def _mean(g: GraphOf) -> str:
    return g.op("mean", g.conv(g.input(*IMAGE), 8, 3), axis=(2, 3), keepdims=False)


def _pads_of_all_axes(g: GraphOf) -> str:
    widths = (1, 0, 2, 1, 0, 3, 1, 1)
    return g.op("pad", g.input(2, 4, 5, 7), pad_width=widths, pad_value=0.0, pad_mode="constant")


def _zeros_before_a_max(g: GraphOf) -> str:
    low = g.op("add", g.input(*IMAGE), g.constant(np.full((1,), -5.0)))
    return g.max_pool(g.pad(low, 1), 3, 2)


def _joined_with_parts_that_leave(g: GraphOf) -> str:
    first = g.conv(g.input(*IMAGE), 8, 3)
    second = g.relu(first)
    return g.concat(first, second, first)


def _reshaped_between(g: GraphOf) -> str:
    return g.conv(g.relu(g.reshape(g.conv(g.input(1, 4, 8, 8), 8, 3, pad=1), 1, 16, 4, 8)), 4, 3)


KERNELS: dict[str, Callable[[GraphOf], str]] = {
    "convolution": lambda g: g.conv(g.input(1, 5, 11, 7), 9, (3, 2), stride=(2, 1), pad=(1, 0, 2, 1)),
    "folded": lambda g: g.relu(g.batch_norm(g.bias(g.conv(g.input(*IMAGE), 8, 3, pad=1)))),
    "dilated": lambda g: g.conv(g.input(1, 3, 20, 20), 8, 7, pad=6, dilation=2),
    "padding alone": lambda g: g.conv(g.input(1, 3, 10, 10), 8, 1, pad=2),
    "depthwise": lambda g: g.conv(g.input(1, 12, 9, 9), 12, 3, pad=1, stride=2, groups=12),
    "groups": lambda g: g.conv(g.input(1, 12, 9, 9), 18, 3, pad=1, groups=3),
    "batch": lambda g: g.max_pool(g.conv(g.input(8, 4, 9, 9), 8, 3, pad=1, stride=2), 2),
    "dense": lambda g: g.relu(g.bias(g.dense(g.input(3, 16), 10))),
    "dense of rank 3": lambda g: g.dense(g.input(2, 9, 16), 10),
    "dense of an image": lambda g: g.dense(g.flatten(g.conv(g.input(*IMAGE), 8, 3)), 12),
    "average without padding": lambda g: g.avg_pool(g.input(2, 4, 9, 9), 3, 2, 1),
    "zeros before a maximum": _zeros_before_a_max,
    "global maximum": lambda g: g.op("global_max_pool2d", g.input(1, 5, 6, 7), layout="NCHW"),
    "mean": _mean,
    "pads of all axes": _pads_of_all_axes,
    "transposed": lambda g: g.transpose(g.input(2, 5, 6, 3), 3, 1, 0, 2),
    "transposed matrix": lambda g: g.transpose(g.input(4, 5, 6), 2, 0, 1),
    "clipped": lambda g: g.clip(g.input(3, 50), -0.5, 0.25),
    "sum that broadcasts": lambda g: g.op("add", g.input(2, 5, 1, 3), g.input(1, 6, 1, name="y")),
    "sum with a constant": lambda g: g.op("add", g.input(2, 5, 6, 3), g.random_constant(6, 1)),
    "joined": _joined_with_parts_that_leave,
    "joined along batch": lambda g: g.concat(g.input(2, 5, 6, 3), g.input(1, 5, 6, 3, name="y"), axis=0),
    "reshaped between": _reshaped_between,
    "squeezed": lambda g: g.squeeze(g.global_avg_pool(g.conv(g.input(*IMAGE), 8, 3)), 2, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_computes_what_the_graph_says(kernel: str, quantize: str) -> None:
    g = GraphOf(seed=3)
    (compiled,) = check_graph(g.build(KERNELS[kernel](g)), quantize, num_tiles=8)
    assert compiled.program.layers


def test_transposes_that_move_nothing_are_views() -> None:
    g = GraphOf()
    given = GraphInFiles(g.build(g.dense(g.flatten(g.conv(g.input(1, 1, 6, 6), 4, 3)), 3)))
    network = read_layers(given.files[0])
    assert [layer.task for layer in network.layers] == [TaskKind.CONVOLUTION] * 2


def test_a_batch_of_more_than_eight_is_refused() -> None:
    g = GraphOf()
    graph = g.build(g.dense(g.input(64, 16), 8, name="head"))
    found = partition(graph, FlowOptions(beyond_public=False))
    files = describe(found, found.subgraphs[0])
    with pytest.raises(MlipCompileError, match="x: a batch of 64, expected at most 8"):
        compile_files(files)


def test_a_pad_that_is_not_zero_is_refused_by_name() -> None:
    g = GraphOf()
    (files,) = GraphInFiles(g.build(g.pad(g.input(*IMAGE), 1, name="edge"))).files
    nodes = tuple(
        node.model_copy(update={"attrs": node.attrs.model_copy(update={"pad_value": 1.0})})
        if isinstance(node.attrs, PadAttributes)
        else node
        for node in files.nodes.nodes
    )
    changed = replace(files, nodes=files.nodes.model_copy(update={"nodes": nodes}))
    with pytest.raises(MlipCompileError, match="edge: pads with 1"):
        compile_files(changed)


def test_weights_that_fp16_cannot_hold_are_refused_by_name() -> None:
    g = GraphOf()
    weight = g.constant(np.full((4, 16), 1e6), "weight")
    given = GraphInFiles(g.build(g.dense(g.input(1, 16), 4, weight=weight, name="head")))
    with pytest.raises(MlipCompileError, match="head: a constant is 1000000"):
        given.compile()
