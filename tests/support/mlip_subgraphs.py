"""The worked example of the files, as a graph after layout conversion, and partitions of such graphs."""

from __future__ import annotations

import numpy as np

from nnhal_devices.mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_devices.mlip.flow.graph.flow_graph import FlowGraph, SourceNode
from nnhal_devices.mlip.flow.graph.operators import Operator
from nnhal_devices.mlip.flow.partition.cutting import cut_out
from nnhal_devices.mlip.flow.partition.flow_partition import FlowPartition
from nnhal_devices.mlip.flow.partition.merging import merge_regions
from nnhal_devices.mlip.flow.patterns.matching import match_composites


def cut(graph: FlowGraph, beyond_public: bool = True) -> FlowPartition:
    """Return the partition of a graph whose layouts are converted, with nothing reverted."""
    found = match_composites(graph, beyond_public)
    return FlowPartition(graph, tuple(cut_out(graph, merge_regions(graph, found.kernels))), found.objections)


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
