from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pytest

from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.layers import (
    AVERAGE_POOL,
    CONV2D_TRANSPOSE,
    GLOBAL_AVERAGE_POOL,
    PRODUCT,
    ConcatAttributes,
    Conv2DAttributes,
    FullyConnectedAttributes,
    GlobalPoolAttributes,
    LayerNormAttributes,
    LayoutTransformAttributes,
    MatmulAttributes,
    MeanAttributes,
    PadAttributes,
    PoolAttributes,
    SliceAttributes,
    SoftmaxAttributes,
    SumAttributes,
    TransposeAttributes,
    UpsamplingAttributes,
)
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import random_inputs
from tests.support.flow_networks import inception_block, mlp, mobilenet_v1, resnet18, ssd_head
from tests.support.mlip_subgraphs import cut, random_graph
from tests.support.random_flow_graphs import random_flow_graph

_CONVOLUTION = ("strides", "padding", "dilation", "groups", "channels", "kernel_size", "data_layout", "kernel_layout")
_POOL = ("pool_size", "strides", "dilation", "ceil_mode", "layout")


def graph_of(files: SubgraphFiles) -> FlowGraph:
    """Return a graph with the inputs ``i0``, ``i1`` and so on and the outputs ``o0``, ``o1`` and so on."""
    builder = FlowGraphBuilder()
    ids = {node.input_id: builder.input(f"i{node.input_id}", node.attrs.shape[0]) for node in files.nodes.inputs}
    for number, node in enumerate(files.nodes.kernels, len(ids)):
        ids[number] = _Layer(builder, files, node).add([ids[edge.node] for edge in node.inputs])
    return builder.build({f"o{i}": ids[head.node] for i, head in enumerate(files.nodes.heads)})


class _Layer:
    def __init__(self, builder: FlowGraphBuilder, files: SubgraphFiles, node: KernelNode) -> None:
        self.builder, self.files, self.node = builder, files, node

    def add(self, data: list[str]) -> str:
        attrs, op = self.node.attrs, self.op
        words: dict[str, Any]
        extension = attrs.nnhal
        match attrs:
            case Conv2DAttributes():
                words = {key: getattr(attrs, key) for key in _CONVOLUTION}
                kind = Operator.CONV2D
                if attrs.layer_name == CONV2D_TRANSPOSE:
                    kind, words["output_padding"] = Operator.CONV2D_TRANSPOSE, (0, 0)
                value = op(kind, data[0], self.constant("kernel"), **words)
                if attrs.bias_const_name:
                    value = op(Operator.ADD, value, self.constant("bias"))
                if attrs.gamma_const_name:
                    statistics = [self.constant(role, np.ravel) for role in ("gamma", "beta", "mean", "var")]
                    value = op(Operator.BATCH_NORM, value, *statistics, axis=attrs.axis, epsilon=attrs.epsilon)
            case FullyConnectedAttributes():
                value = data[0]
                if attrs.weights_need_transform:
                    value = op(Operator.LAYOUT_TRANSFORM, value, src_layout="NHWC", dst_layout="NCHW")
                    value = op(Operator.BATCH_FLATTEN, value)
                value = op(Operator.DENSE, value, self.constant("kernel"))
                if attrs.bias_const_name:
                    value = op(Operator.ADD, value, self.constant("bias", np.ravel))
            case PoolAttributes():
                zeros = (extension and extension.zero_padding) or (0, 0, 0, 0)
                assert attrs.layout == "NHWC"
                value = op(
                    Operator.PAD,
                    data[0],
                    pad_width=(0, 0, zeros[0], zeros[2], zeros[1], zeros[3], 0, 0),
                    pad_value=0.0,
                    pad_mode="constant",
                )
                words = {key: getattr(attrs, key) for key in _POOL}
                words["padding"] = tuple(a - b for a, b in zip(attrs.padding, zeros, strict=True))
                if attrs.layer_name == AVERAGE_POOL:
                    value = op(Operator.AVG_POOL2D, value, **words, count_include_pad=attrs.count_include_pad)
                else:
                    value = op(Operator.MAX_POOL2D, value, **words)
            case GlobalPoolAttributes():
                average = attrs.layer_name == GLOBAL_AVERAGE_POOL
                kind = Operator.GLOBAL_AVG_POOL2D if average else Operator.GLOBAL_MAX_POOL2D
                value = op(kind, data[0], layout=attrs.layout)
            case SumAttributes():
                shapes = attrs.data_layout_shapes or (attrs.data_layout_shape,)
                operands = [op("reshape", each, newshape=shape) for each, shape in zip(data, shapes, strict=True)]
                if attrs.input_const_name:
                    shape = attrs.input_const_shape
                    operands.append(self.constant("input", lambda array: array.reshape(shape)))
                kind = Operator.MULTIPLY if attrs.layer_name == PRODUCT else Operator.ADD
                value = op(Operator.RESHAPE, op(kind, *operands), newshape=attrs.shape[0])
            case SliceAttributes():
                value = op(Operator.STRIDED_SLICE, data[0], axis=attrs.axis, begin=attrs.begin, end=attrs.end)
            case UpsamplingAttributes():
                words = {key: getattr(attrs, key) for key in ("scale_h", "scale_w", "layout")}
                value = op(Operator.UPSAMPLING, data[0], **words)
            case ConcatAttributes():
                fields = list(data)
                for position, name in sorted(((extension and extension.constant_fields) or {}).items()):
                    array, rank = self.files.constants.array(name), len(attrs.shape[0])
                    fields.insert(position, self.builder.constant(name, array.reshape(array.shape[-rank:])))
                value = op(Operator.CONCATENATE, *fields, axis=attrs.axis)
            case LayoutTransformAttributes():
                value = op(Operator.LAYOUT_TRANSFORM, data[0], src_layout=attrs.src_layout, dst_layout=attrs.dst_layout)
            case TransposeAttributes():
                value = op(Operator.TRANSPOSE, data[0], axes=attrs.axes)
            case PadAttributes():
                words = {"pad_width": attrs.pad_width, "pad_value": attrs.pad_value, "pad_mode": "constant"}
                value = op(Operator.PAD, data[0], **words)
            case SoftmaxAttributes():
                value = op(Operator.SOFTMAX, data[0], axis=attrs.axis)
            case LayerNormAttributes():
                value = op(Operator.LAYER_NORM, data[0], axis=attrs.axis, epsilon=attrs.epsilon)
            case MatmulAttributes():
                turns = {"transpose_a": attrs.transpose_a, "transpose_b": attrs.transpose_b}
                value = op(Operator.BATCH_MATMUL, *data, **turns)
            case MeanAttributes():
                value = op(Operator.MEAN, data[0], axis=attrs.axis, keepdims=attrs.keepdims)
            case _:
                value = op(Operator.RESHAPE, data[0], newshape=attrs.shape[0])
        if attrs.activation_type == "relu":
            return op(Operator.RELU, value)
        if attrs.activation_type and attrs.activation_type in TABLES:
            alpha, beta = (extension and extension.table) or (0.0, 0.0)
            return op(attrs.activation_type, value, alpha=alpha, beta=beta)
        if attrs.activation_type == "clip":
            assert extension and extension.clip
            low, high = extension.clip
            return op(Operator.CLIP, value, a_min=-inf if low is None else low, a_max=inf if high is None else high)
        return value

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.builder.add(operator, inputs, attributes)

    def constant(self, role: str, change: Callable[[Any], Any] = lambda array: array) -> str:
        name = getattr(self.node.attrs, f"{role}_const_name")
        return self.builder.constant(name, change(self.files.constants.array(name)))


def check_meaning(partitioned: FlowPartition) -> None:
    """Compute each subgraph from its files alone, and compare with the graph."""
    graph = partitioned.graph
    values = evaluate(graph, random_inputs(graph))
    assert partitioned.subgraphs
    for subgraph in partitioned.subgraphs:
        files = describe(partitioned, subgraph)
        again = graph_of(files)
        found = evaluate(again, {f"i{i}": values[name] for i, name in enumerate(subgraph.inputs)})
        for number, name in enumerate(subgraph.outputs):
            result = found[again.outputs[f"o{number}"]]
            np.testing.assert_allclose(result, values[name], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("seed", range(40))
def test_files_say_all_of_a_subgraph(seed: int) -> None:
    check_meaning(cut(random_graph(seed)))


@pytest.mark.parametrize("beyond_public", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_files_say_all_of_what_the_flow_makes(seed: int, beyond_public: bool) -> None:
    check_meaning(partition(random_flow_graph(seed), FlowOptions(beyond_public=beyond_public, revert=False)))


@pytest.mark.parametrize(
    "network",
    [partial(resnet18, 32, 10), partial(mobilenet_v1, 32, 10, width=0.25), inception_block, ssd_head, mlp],
    ids=["resnet18", "mobilenet", "inception", "ssd", "mlp"],
)
def test_files_say_all_of_known_networks(network: Callable[[], FlowGraph]) -> None:
    check_meaning(partition(network()))
