from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.layers import (
    ConcatAttributes,
    Conv2DAttributes,
    FullyConnectedAttributes,
    PoolAttributes,
    SumAttributes,
)
from nnhal_mlip.flow.files.nodes_file import KernelNode, NodesFile
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.flow_partition import FlowKernel, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import SourceNode
from tests.support.flow_graphs import GraphOf
from tests.support.flow_networks import resnet18
from tests.support.mlip_subgraphs import cut, described, worked_graph


def as_json(file: NodesFile) -> Any:
    return json.loads(file.model_dump_json())


def only(files: SubgraphFiles, layer: str) -> KernelNode:
    (node,) = (node for node in files.nodes.kernels if node.layer == layer)
    return node


def by_hand(graph: Any, *kernels: FlowKernel) -> SubgraphFiles:
    """Describe layers that no pattern would make."""
    made = {node.output for kernel in kernels for node in kernel.nodes}
    read = dict.fromkeys(name for kernel in kernels for node in kernel.nodes for name in node.inputs)
    inputs = tuple(name for name in read if name not in made and name not in graph.constants)
    subgraph = FlowSubgraph(3, "tvmgen_mrvl_main_3", kernels, inputs, (kernels[-1].output,))
    return describe(FlowPartition(graph, (subgraph,), {}), subgraph)


def kernel(graph: Any, *operators: str) -> FlowKernel:
    return FlowKernel("", operators[0], tuple(node for node in graph.nodes if node.operator in operators))


CONSTANTS: dict[str, Any] = {f"{role}_const": {} for role in ("kernel", "bias", "gamma", "beta", "mean", "var")}


def test_the_worked_example_is_tvms_form_with_one_more_key() -> None:
    partition = cut(worked_graph(), beyond_public=False)
    subgraph = replace(partition.subgraphs[0], number=7, symbol="tvmgen_mrvl_main_7")
    found = as_json(describe(partition, subgraph).nodes)
    nodes = found.pop("nodes")
    assert found.pop("nnhal") == {"schema": 1, "outputs": [{"value": "scores", "names": ["scores"], "layout": "NC"}]}
    assert found == {
        "symbol": "tvmgen_mrvl_main_7",
        "batch_size": "1",
        "num_subgraph_inputs": "1",
        "num_subgraph_outputs": "1",
        "arg_nodes": [0],
        "heads": [[4, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[1, 2, 4, 4], [1, 4, 4, 2], [1, 4, 4, 4], [1, 2, 2, 4], [1, 3]]],
            "dltype": ["list_str", ["float32"] * 5],
        },
    }
    for node in nodes:
        node["attrs"].pop("nnhal")
    assert nodes[0] == {
        "op": "input",
        "name": "mrvl_7_i0",
        "input_id": ["0"],
        "inputs": [],
        "attrs": {
            "layer_name": ["input"],
            "shape": [[1, 2, 4, 4]],
            "dtype": ["float32"],
            "data_layout": ["NCHW"],
        },
    }
    assert nodes[2] == {
        "op": "tvm_op",
        "name": "tvmgen_mrvl_main_1",
        "inputs": [[1, 0, 0]],
        "attrs": {
            "layer_name": ["Conv2D"],
            "composite_name": ["mrvl.conv2d_nhwc2nhwc"],
            "func_node_name": ["tvmgen_mrvl_main_7"],
            "func_name": ["n1_Conv2D_NHWC"],
            "strides": ["1", "1"],
            "padding": ["1", "1", "1", "1"],
            "dilation": ["1", "1"],
            "groups": ["1"],
            "channels": ["4"],
            "kernel_size": ["3", "3"],
            "out_dtype": [""],
            "data_layout": ["NHWC"],
            "data_layout_shape": ["1", "4", "4", "2"],
            "kernel_layout": ["OHWI"],
            "out_layout": ["NHWC"],
            "out_layout_shape": ["1", "4", "4", "4"],
            "kernel_const_name": ["tvmgen_mrvl_main_1_const_0"],
            "bias_const_name": ["tvmgen_mrvl_main_1_const_1"],
            "bias_layout": ["---O"],
            "activation_type": ["relu"],
            "from_tuple_idx": ["-1"],
            "shape": [[1, 4, 4, 4]],
            "dtype": ["float32"],
            "num_inputs": "3",
            "num_outputs": "1",
            "mrvl_nodes_idx": [2],
            **CONSTANTS,
            "kernel_const": {
                "name": "tvmgen_mrvl_main_1_const_0",
                "shape": [4, 3, 3, 2],
                "dtype": "float32",
                "min": "-0.75",
                "max": "0.5",
            },
            "bias_const": {
                "name": "tvmgen_mrvl_main_1_const_1",
                "shape": [1, 1, 1, 4],
                "dtype": "float32",
                "min": "-0.25",
                "max": "1",
            },
        },
    }
    assert nodes[1]["attrs"]["func_name"] == ["n0_layout_transform_NCHW2NHWC"]
    assert "composite_name" not in nodes[1]["attrs"]
    assert nodes[3]["attrs"]["func_name"] == ["n2_Maxpool2D_NHWC"]
    assert nodes[3]["attrs"]["ceil_mode"] == ["0"]
    assert nodes[3]["attrs"]["kernel_layout_shape"] == ["2", "2"]
    assert nodes[4]["attrs"]["func_name"] == ["n3_FC_NHWC2NC"]
    assert nodes[4]["attrs"]["weights_need_transform"] == ["yes"]
    assert nodes[4]["attrs"]["data_layout_shape"] == ["1", "2", "2", "4"]
    assert nodes[4]["attrs"]["kernel_const"]["shape"] == [3, 16]


def test_the_constants_of_the_worked_example_are_little_endian_floats() -> None:
    files = described(worked_graph(), beyond_public=False)
    entries = json.loads(files.constants.model_dump_json())
    assert list(entries) == [f"tvmgen_mrvl_main_{name}" for name in ("1_const_0", "1_const_1", "3_const_0")]
    bias = entries["tvmgen_mrvl_main_1_const_1"]
    bias.pop("nnhal")
    assert bias == {
        "shape": [1, 1, 1, 4],
        "dtype": "float32",
        "min": "-0.25",
        "max": "1",
        "data_base64": "AAAAPwAAgL4AAAAAAACAPw==",
    }


def test_every_layer_carries_the_users_names() -> None:
    files = described(worked_graph())
    extensions = [node.attrs.nnhal for node in files.nodes.kernels]
    assert [each.user_names for each in extensions if each] == [
        (),
        ("first", "first_bias", "first_relu"),
        ("pooled",),
        ("flat", "scores"),
    ]
    assert files.nodes.kernels[1].user_name == "first, first_bias, first_relu"


def test_ids_of_layers_are_unique_in_a_model_though_names_are_not() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 2)
    graph = g.build(g.conv(g.on_host(g.conv(x, 2)), 2, 1))
    partition = cut(graph)
    files = [describe(partition, subgraph) for subgraph in partition.subgraphs]
    assert [each.nodes.kernels[0].name for each in files] == ["tvmgen_mrvl_main_0"] * 2
    ids = [node.attrs.nnhal.id for each in files for node in each.nodes.kernels if node.attrs.nnhal]
    assert len(ids) == len(set(ids)) == sum(len(each.nodes.kernels) for each in files)


def test_an_input_in_nhwc_is_labelled_so() -> None:
    g = GraphOf("NHWC")
    files = described(g.build(g.conv(g.input(1, 4, 4, 2), 2)))
    assert files.nodes.inputs[0].attrs.data_layout == "NHWC"


def test_numbers_of_batch_normalisation_have_17_digits_and_constants_count_on() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 2)
    files = described(g.build(g.batch_norm(g.bias(g.conv(x, 3)))))
    node = only(files, "Conv2D")
    written = as_json(files.nodes)["nodes"][1]["attrs"]
    assert written["epsilon"] == ["1.0000000000000001e-05"]
    assert (written["axis"], written["center"], written["scale"]) == (["3"], ["1"], ["1"])
    assert isinstance(node.attrs, Conv2DAttributes)
    roles = ("kernel", "bias", "gamma", "beta", "mean", "var")
    assert [getattr(node.attrs, f"{role}_const_name") for role in roles] == [f"{node.name}_const_{i}" for i in range(6)]
    assert node.attrs.num_inputs == 7
    assert written["gamma_const"] == {"name": f"{node.name}_const_2", "shape": [1, 3], "dtype": "float32"}
    assert written["var_layout"] == ["-O"]


def test_without_a_bias_batch_normalisation_counts_from_1() -> None:
    g = GraphOf("NHWC")
    node = only(described(g.build(g.batch_norm(g.conv(g.input(1, 4, 4, 2), 3)))), "Conv2D")
    assert isinstance(node.attrs, Conv2DAttributes)
    assert (node.attrs.gamma_const_name, node.attrs.var_const_name) == (f"{node.name}_const_1", f"{node.name}_const_4")


def test_a_pad_before_a_convolution_adds_to_its_padding() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.conv(g.pad(g.input(1, 6, 6, 2), (1, 2, 3, 0)), 2, pad=(1, 1, 0, 0)))
    files = by_hand(graph, FlowKernel("", "conv2d", graph.nodes))
    node = only(files, "Conv2D")
    assert isinstance(node.attrs, Conv2DAttributes)
    assert node.attrs.padding == (2, 3, 3, 0)


def test_a_pad_before_a_maximum_is_data() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.max_pool(g.pad(g.input(1, 6, 6, 2), (1, 0, 1, 0)), 3, 1, 1))
    node = only(by_hand(graph, FlowKernel("", "max_pool2d", graph.nodes)), "Maxpool2D")
    assert isinstance(node.attrs, PoolAttributes)
    assert node.attrs.padding == (2, 1, 2, 1)
    assert node.attrs.nnhal and node.attrs.nnhal.zero_padding == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("own", "counted", "written", "zeros"),
    [(0, False, True, None), (0, True, True, None), (1, True, True, None), (1, False, False, (1, 0, 1, 0))],
)
def test_a_pad_before_an_average_is_counted(
    own: int, counted: bool, written: bool, zeros: tuple[int, ...] | None
) -> None:
    g = GraphOf("NHWC")
    x = g.pad(g.input(1, 6, 6, 2), (1, 0, 1, 0))
    graph = g.build(g.avg_pool(x, 3, 1, own, count_include_pad=counted))
    node = only(by_hand(graph, FlowKernel("", "avg_pool2d", graph.nodes)), "Avgpool2D")
    assert isinstance(node.attrs, PoolAttributes)
    assert node.attrs.count_include_pad is written
    assert node.attrs.nnhal and node.attrs.nnhal.zero_padding == zeros


@pytest.mark.parametrize(("value", "mode"), [(1.0, "constant"), (0.0, "edge")])
def test_a_pad_of_something_else_is_refused_by_its_name(value: float, mode: str) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.conv(g.pad(g.input(1, 6, 6, 2), 1, value=value, mode=mode, name="frame"), 2))
    with pytest.raises(FlowFilesError, match="pad 'frame'"):
        by_hand(graph, FlowKernel("", "conv2d", graph.nodes))


@pytest.mark.parametrize("weights", ["conv2d", "dense"])
def test_weights_that_are_computed_are_refused(weights: str) -> None:
    g = GraphOf("NHWC")
    if weights == "conv2d":
        graph = g.build(g.conv(g.input(1, 4, 4, 2), 2, weight=g.input(2, 3, 3, 2, name="w"), name="mine"))
    else:
        graph = g.build(g.dense(g.input(1, 4), 2, weight=g.input(2, 4, name="w"), name="mine"))
    with pytest.raises(FlowFilesError, match=r"layer 'mine' .*operand 'w', which is computed, expected a constant"):
        by_hand(graph, kernel(graph, weights))


def test_a_bias_that_varies_over_the_image_is_refused() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 4, 4, 2), 2, 1, name="mine")
    graph = g.build(g.op("add", x, g.random_constant(1, 4, 4, 2)))
    with pytest.raises(FlowFilesError, match=r"layer 'mine, add_1' .*shape.*expected shape"):
        by_hand(graph, kernel(graph, "conv2d", "add"))


def test_a_scalar_bias_is_one_for_each_channel() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 4, 4, 2), 3, 1)
    graph = g.build(g.op("add", x, g.constant(np.array(0.5))))
    files = by_hand(graph, kernel(graph, "conv2d", "add"))
    assert files.constants.array("tvmgen_mrvl_main_0_const_1").tolist() == [[[[0.5, 0.5, 0.5]]]]


def test_a_constant_that_two_layers_read_is_kept_once() -> None:
    g = GraphOf("NHWC")
    weight = g.random_constant(2, 3, 3, 2)
    x = g.conv(g.conv(g.input(1, 6, 6, 2), 2, weight=weight), 2, weight=weight)
    files = described(g.build(g.bias(x)))
    first, second = (node.attrs for node in files.nodes.kernels)
    assert isinstance(first, Conv2DAttributes) and isinstance(second, Conv2DAttributes)
    assert first.kernel_const_name == second.kernel_const_name == "tvmgen_mrvl_main_0_const_0"
    assert second.bias_const_name == "tvmgen_mrvl_main_1_const_1"
    assert list(files.constants.entries) == ["tvmgen_mrvl_main_0_const_0", "tvmgen_mrvl_main_1_const_1"]


def test_float16_constants_say_their_type_and_their_ends() -> None:
    g = GraphOf("NHWC", element_type=np.float16)
    graph = g.build(g.conv(g.input(1, 4, 4, 1), 1, 1, weight=g.constant(np.full((1, 1, 1, 1), 0.1))))
    entry = described(graph).constants.entries["tvmgen_mrvl_main_0_const_0"]
    assert (entry.dtype, entry.min, entry.max) == ("float16", "0.0999755859375", "0.0999755859375")
    assert bytes(entry.data) == np.float16(0.1).tobytes()


def test_int8_values_and_weights_say_their_scales() -> None:
    b = FlowGraphBuilder()
    x = b.input("x", (1, 4, 4, 2), np.int8, (0.5,))
    w = b.constant("w", np.arange(-2, 4, dtype=np.int8).reshape(3, 1, 1, 2), (0.1, 0.2, 0.3))
    bias = b.constant("b", np.array([1, -70000, 3], np.int32), (0.05, 0.1, 0.15))
    result = b.values[x]._replace(shape=(1, 4, 4, 3), scales=(0.25,))
    words: Any = {"data_layout": "NHWC", "kernel_layout": "OHWI", "groups": 1, "channels": 3, "kernel_size": (1, 1)}
    words |= {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    conv = b.add("conv2d", [x, w], words, [SourceNode(0, "c", "CONV_2D")], results=[result])
    graph = b.build({"y": b.add("bias_add", [conv, bias], {"axis": 3}, results=[result])})
    files = by_hand(graph, FlowKernel("", "conv2d", graph.nodes))
    assert files.nodes.inputs[0].attrs.nnhal and files.nodes.inputs[0].attrs.nnhal.scales == (0.5,)
    node = files.nodes.kernels[0]
    assert node.attrs.nnhal and node.attrs.nnhal.scales == (0.25,)
    assert node.attrs.dtype == ("int8",)
    assert files.nodes.nnhal and files.nodes.nnhal.outputs[0].scales == (0.25,)
    weights, biases = (entry for entry in files.constants.entries.values())
    assert (weights.dtype, weights.min, weights.max) == ("int8", "-2", "3")
    assert weights.nnhal and (weights.nnhal.scales, weights.nnhal.axis) == ((0.1, 0.2, 0.3), 0)
    assert (biases.dtype, biases.shape, biases.min) == ("int32", (1, 1, 1, 3), "-70000")
    assert biases.nnhal and (biases.nnhal.scales, biases.nnhal.axis) == ((0.05, 0.1, 0.15), 3)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    b = FlowGraphBuilder()
    graph = b.build({"y": b.add("relu", [b.input("x", (1, 4), np.int8, (scale,))])})
    with pytest.raises(FlowFilesError, match=r"input 'x': got scale .*, expected a number above 0"):
        by_hand(graph, FlowKernel("", "relu", graph.nodes))


def test_a_sum_writes_shapes_of_rank_4_and_its_constant() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.input(1, 8, 6), g.random_constant(6)))
    files = by_hand(graph, kernel(graph, "add"))
    attrs = only(files, "Sum2D").attrs
    assert isinstance(attrs, SumAttributes)
    assert attrs.func_name == "n0_Sum2D"
    assert attrs.data_layout_shape == attrs.out_layout_shape == (1, 8, 6, 1)
    assert attrs.shape == ((1, 8, 6),)
    assert attrs.input_const_shape == (1, 1, 6, 1)
    assert attrs.input_const and attrs.input_const.shape == (1, 6)
    assert attrs.num_inputs == 2


def test_operands_of_a_sum_with_different_ranks_still_broadcast() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.input(1, 4, 4, 6), g.input(6, name="z")))
    attrs = only(by_hand(graph, kernel(graph, "add")), "Sum2D").attrs
    assert attrs.data_layout_shapes == ((1, 4, 4, 6), (1, 1, 1, 6))


def test_a_sum_of_a_value_with_itself_has_two_edges() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 6)
    graph = g.build(g.op("add", x, x))
    node = only(by_hand(graph, kernel(graph, "add")), "Sum2D")
    assert [tuple(edge) for edge in node.inputs] == [(0, 0, 0), (0, 0, 0)]


def test_a_concatenation_of_five_writes_all_five() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.concat(*(g.input(1, 2, 2, c, name=f"x{c}") for c in range(1, 6)), axis=-1))
    files = by_hand(graph, kernel(graph, "concatenate"))
    written = as_json(files.nodes)["nodes"][5]["attrs"]
    assert written["axis"] == ["3"]
    assert written["from_tuple_idx"] == ["-1"] * 5
    assert [written[f"data_layout_shape_{i}"] for i in range(5)] == [["1", "2", "2", str(c)] for c in range(1, 6)]
    assert len(files.nodes.inputs) == 5


def test_constant_fields_of_a_concatenation_keep_their_places() -> None:
    g = GraphOf("NHWC")
    x, z = g.input(1, 2, 2, 3), g.input(1, 2, 2, 1, name="z")
    graph = g.build(g.concat(x, g.random_constant(1, 2, 2, 5), z))
    node = only(by_hand(graph, kernel(graph, "concatenate")), "Concat")
    assert isinstance(node.attrs, ConcatAttributes) and node.attrs.nnhal
    assert node.attrs.nnhal.constant_fields == {1: "tvmgen_mrvl_main_0_const_0"}
    assert [edge.node for edge in node.inputs] == [0, 1]
    assert node.attrs.num_inputs == 3


@pytest.mark.parametrize(
    ("operators", "word", "clip"),
    [
        (["relu"], "relu", None),
        (["clip"], "clip", (0.0, 6.0)),
        (["clip", "relu"], "clip", (0.0, 6.0)),
        (["relu", "relu"], "relu", None),
    ],
)
def test_an_activation_alone_is_a_layer(operators: list[str], word: str, clip: tuple[float, float] | None) -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 2, 2, 3)
    for operator in operators:
        x = g.relu(x) if operator == "relu" else g.clip(x)
    graph = g.build(x)
    node = only(by_hand(graph, FlowKernel("", operators[0], graph.nodes)), "Activation")
    assert node.attrs.activation_type == word
    assert node.attrs.nnhal and node.attrs.nnhal.clip == clip


def test_the_range_of_an_activation_is_a_clip_unless_it_is_relus() -> None:
    g = GraphOf("NHWC")
    x = g.clip(g.conv(g.input(1, 2, 2, 3), 1, 1), -1.0, 1.0)
    attrs = only(described(g.build(x)), "Conv2D").attrs
    assert attrs.activation_type == "clip"
    assert attrs.nnhal and attrs.nnhal.clip == (-1.0, 1.0)


def test_layers_beyond_the_public_flow_say_so() -> None:
    g = GraphOf("NHWC")
    x = g.clip(g.conv(g.input(1, 2, 2, 3), 1, 1))
    extension = only(described(g.build(x)), "Conv2D").attrs.nnhal
    assert extension and extension.beyond_public


def test_changes_of_shape_and_order() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 2, 3, 4), 4, 1)
    x = g.op("mean", g.pad(x, (1, 0, 0, 2)), axis=(1, 2), keepdims=False)
    x = g.squeeze(g.transpose(g.reshape(x, 2, 1, 2, 1), -1, 0, 1, 2), 0, 2)
    files = described(g.build(g.dense(x, 3)))
    written = {node["attrs"]["layer_name"][0]: node["attrs"] for node in as_json(files.nodes)["nodes"][1:]}
    assert list(written) == ["Conv2D", "Pad", "Mean2D", "reshape", "transpose", "squeeze", "FC"]
    assert written["Pad"]["pad_width"] == ["0", "0", "1", "0", "0", "2", "0", "0"]
    assert written["Pad"]["pad_value"] == ["0"]
    assert (written["Mean2D"]["axis"], written["Mean2D"]["keepdims"]) == (["1", "2"], ["0"])
    assert written["transpose"]["axes"] == ["3", "0", "1", "2"]
    assert written["squeeze"]["out_layout"] == ["NC"]
    assert written["FC"]["func_name"] == ["n6_FC_NC"]


@pytest.mark.parametrize("operator", ["global_avg_pool2d", "global_max_pool2d"])
def test_global_pools_write_the_image_as_their_window(operator: str) -> None:
    g = GraphOf("NCHW")
    graph = g.build(g.op(operator, g.input(1, 3, 5, 7), layout="NCHW"))
    attrs = by_hand(graph, FlowKernel("", operator, graph.nodes)).nodes.kernels[0].attrs
    assert as_json(by_hand(graph, FlowKernel("", operator, graph.nodes)).nodes)["nodes"][1]["attrs"][
        "kernel_layout_shape"
    ] == ["5", "7"]
    assert attrs.data_layout == "NCHW"


def test_a_dense_layer_of_three_axes_has_no_layout() -> None:
    g = GraphOf()
    graph = g.build(g.bias(g.dense(g.input(2, 5, 4), 3)))
    attrs = only(by_hand(graph, FlowKernel("mrvl.fc_ni2no", "dense", graph.nodes)), "FC").attrs
    assert isinstance(attrs, FullyConnectedAttributes)
    assert (attrs.data_layout, attrs.func_name, attrs.shape) == ("", "n0_FC", ((2, 5, 3),))


def test_a_flatten_that_mixes_images_is_refused() -> None:
    g = GraphOf("NHWC")
    x = g.op("layout_transform", g.input(2, 2, 2, 4), src_layout="NHWC", dst_layout="NCHW")
    graph = g.build(g.dense(g.reshape(x, 4, 8, name="mix"), 3))
    with pytest.raises(FlowFilesError, match=re.escape("'mix' to shape [4, 8], expected [2, 16]")):
        by_hand(graph, FlowKernel("", "dense", graph.nodes))


def test_an_unknown_extent_is_refused_by_the_inputs_name() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.conv(g.input(0, 4, 4, 2, name="picture"), 2))
    with pytest.raises(FlowFilesError, match=r"input 'picture'.*unknown"):
        by_hand(graph, kernel(graph, "conv2d"))


def test_an_operator_without_a_layer_is_refused_with_the_known_ones() -> None:
    g = GraphOf()
    x = g.input(1, 4)
    graph = g.build(g.op("divide", x, x, name="last"))
    with pytest.raises(FlowFilesError, match=r"layer 'last' .*divide, expected one of add"):
        by_hand(graph, FlowKernel("", "divide", graph.nodes))


def test_an_operand_from_nowhere_is_refused() -> None:
    g = GraphOf()
    graph = g.build(g.dense(g.input(1, 4), 2, name="mine"))
    made = FlowKernel("", "dense", graph.nodes)
    stray = FlowSubgraph(0, "s", (made,), ("weight",), (made.output,))
    with pytest.raises(FlowFilesError, match=r"layer 'mine' .*operand 'x', expected an input of the subgraph"):
        describe(FlowPartition(graph, (stray,), {}), stray)


def test_resnet18_is_one_file_of_its_layers() -> None:
    files = described(resnet18(32, 10, layout="NHWC"))
    layers = [node.layer for node in files.nodes.kernels]
    assert [layers.count(each) for each in ("Conv2D", "Maxpool2D", "Sum2D", "GlobalAvgpool2D", "FC")] == [
        20,
        1,
        8,
        1,
        1,
    ]
    assert [node.attrs.mrvl_nodes_idx[0] for node in files.nodes.kernels] == list(range(1, len(layers) + 1))


def test_a_description_names_each_output_and_its_layout() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 4, 4, 2), 2, name="inner")
    g.builder.add("divide", [x, x], {}, [], "s")
    graph = g.builder.build({"mine": x, "yours": x, "host": "s"})
    extension = described(graph).nodes.nnhal
    assert extension and [(each.value, each.names, each.layout) for each in extension.outputs] == [
        ("inner", ("mine", "yours"), "NHWC")
    ]
