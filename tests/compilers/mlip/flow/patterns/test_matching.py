from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.operators import TABLES
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def layers(graph: FlowGraph, beyond: bool = False) -> list[list[str]]:
    return [[str(node.operator) for node in kernel.nodes] for kernel in match_composites(graph, beyond).kernels]


def refusal(graph: FlowGraph, node: str, beyond: bool = False) -> Objection:
    return match_composites(graph, beyond).objections[node]


def test_a_convolution_takes_all_of_its_optional_parts() -> None:
    g = GraphOf("NHWC")
    value = g.conv(g.pad(g.input(1, 8, 8, 3), (1, 0, 2, 1)), 4)
    graph = g.build(g.relu(g.batch_norm(g.bias(value))))
    assert layers(graph) == [["pad", "conv2d", "bias_add", "batch_norm", "relu"]]
    assert match_composites(graph, False).kernels[0].composite == "mrvl.conv2d_nhwc2nhwc"


def test_each_optional_part_may_lack() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 8, 8, 3)
    graph = g.build(g.relu(g.conv(x, 4)), g.batch_norm(g.conv(x, 4)), g.bias(g.conv(x, 4)), g.conv(x, 4))
    assert layers(graph) == [["conv2d", "relu"], ["conv2d", "batch_norm"], ["conv2d", "bias_add"], ["conv2d"]]


def test_a_second_bias_becomes_a_sum() -> None:
    g = GraphOf("NHWC")
    value = g.conv(g.input(1, 8, 8, 3), 4)
    for _ in range(2):
        value = g.op("add", value, g.random_constant(1, 1, 1, 4))
    assert layers(g.build(g.relu(value))) == [["conv2d", "add"], ["add", "relu"]]


def test_normalisation_behind_the_activation_stays_on_the_host() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.batch_norm(g.relu(g.conv(g.input(1, 8, 8, 3), 4)), name="n"))
    assert layers(graph) == [["conv2d", "relu"]]
    assert refusal(graph, "n").check == "batch_norm.alone"


def test_a_value_that_others_need_ends_a_layer() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 8, 8, 3), 4, name="c")
    other = g.op("sigmoid", conv)
    graph = g.build(g.relu(conv, name="r"), other)
    assert layers(graph) == [["conv2d"]]
    assert refusal(graph, "r").check == "relu.users"
    assert "c," in refusal(graph, "r").got


def test_an_output_of_the_graph_ends_a_layer() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 8, 8, 3), 4, name="c")
    assert layers(g.build(g.relu(conv), conv)) == [["conv2d"]]


def test_a_pad_that_two_convolutions_read_is_part_of_neither() -> None:
    g = GraphOf("NHWC")
    padded = g.pad(g.input(1, 8, 8, 3), 1, name="p")
    graph = g.build(g.conv(padded, 4), g.conv(padded, 4))
    assert layers(graph) == [["conv2d"], ["conv2d"]]
    assert refusal(graph, "p").check == "pad.users"
    assert layers(graph, beyond=True) == [["pad"], ["conv2d"], ["conv2d"]]


@pytest.mark.parametrize(
    ("value", "mode", "check"),
    [(0.0, "constant", ""), (1.0, "constant", "pad.value"), (0.0, "edge", "pad.mode"), (0.0, "reflect", "pad.mode")],
)
@pytest.mark.parametrize("layer", ["conv", "max_pool", "avg_pool"])
def test_only_pads_with_zeros_are_parts(layer: str, value: float, mode: str, check: str) -> None:
    g = GraphOf("NHWC")
    padded = g.pad(g.input(1, 8, 8, 3), 1, value=value, mode=mode, name="p")
    graph = g.build(g.conv(padded, 4) if layer == "conv" else getattr(g, layer)(padded))
    (kernel,) = match_composites(graph, False).kernels
    assert len(kernel.nodes) == (1 if check else 2)
    if check:
        assert refusal(graph, "p").check == check
        assert refusal(graph, "p", beyond=True).check == check


def test_a_pad_of_the_channels_is_no_part() -> None:
    g = GraphOf("NHWC")
    widths = (0, 0, 1, 1, 1, 1, 0, 2)
    x = g.input(1, 8, 8, 2)
    padded = g.op("pad", x, name="p", pad_width=widths, pad_value=0.0, pad_mode="constant")
    graph = g.build(g.conv(padded, 4))
    assert refusal(graph, "p").check == "pad.axes"


def test_zeros_before_a_pool_with_padding_of_its_own_are_no_part() -> None:
    g = GraphOf("NHWC")
    padded = g.pad(g.input(1, 8, 8, 2), 1, name="p")
    assert refusal(g.build(g.max_pool(padded, 3, 2, 1)), "p").check == "pad.padding"
    counting = GraphOf("NHWC")
    padded = counting.pad(counting.input(1, 8, 8, 2), 1)
    assert layers(counting.build(counting.avg_pool(padded, 3, 2, 1, count_include_pad=True))) == [["pad", "avg_pool2d"]]


def test_a_convolution_adds_the_zeros_of_a_pad_to_its_own() -> None:
    g = GraphOf("NHWC")
    assert layers(g.build(g.conv(g.pad(g.input(1, 8, 8, 2), 1), 4, pad=1))) == [["pad", "conv2d"]]


@pytest.mark.parametrize("shape", [(4,), (1, 1, 4), (1, 1, 1, 4), (1,), ()])
def test_a_bias_has_a_number_for_each_channel_or_one_for_all(shape: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.conv(g.input(1, 6, 6, 3), 4), g.random_constant(*shape)))
    assert layers(graph) == [["conv2d", "add"]]


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (4, 1), (3, 1, 1, 4)])
def test_another_constant_behind_a_convolution_is_summed(shape: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.conv(g.input(1, 6, 6, 3), 4), g.random_constant(*shape)))
    assert layers(graph) == [["conv2d"], ["add"]]


def test_a_bias_on_the_left_is_a_sum_to_the_public_flow() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.random_constant(1, 1, 1, 4), g.conv(g.input(1, 6, 6, 3), 4)))
    assert layers(graph) == [["conv2d"], ["add"]]
    assert layers(graph, beyond=True) == [["conv2d", "add"]]
    assert match_composites(graph).kernels[0].beyond_public


def test_a_normalisation_along_another_axis_is_no_part() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 6, 6, 3), 4)
    statistics = [g.constant(np.ones(4)) for _ in range(4)]
    graph = g.build(g.op("batch_norm", conv, *statistics, name="n", axis=1, epsilon=1e-5))
    assert refusal(graph, "n").check == "batch_norm.axis"


def flattened(*, reshaped: tuple[int, ...] = (), shared: bool = False) -> FlowGraph:
    g = GraphOf("NHWC")
    image = g.input(2, 3, 3, 4)
    moved = g.op("layout_transform", image, name="t", src_layout="NHWC", dst_layout="NCHW")
    flat = g.reshape(moved, *reshaped, name="f") if reshaped else g.flatten(moved, name="f")
    outputs = [g.relu(g.bias(g.dense(flat, 5)))]
    return g.build(*outputs, *([flat] if shared else []))


@pytest.mark.parametrize("reshaped", [(), (2, 36)])
def test_a_dense_layer_takes_the_flattening_before_it(reshaped: tuple[int, ...]) -> None:
    (kernel,) = match_composites(flattened(reshaped=reshaped), False).kernels
    assert kernel.composite == "mrvl.fc_ni2no"
    assert kernel.nodes[0].operator == "layout_transform"
    assert len(kernel.nodes) == 5


@pytest.mark.parametrize("graph", [flattened(reshaped=(8, 9)), flattened(shared=True)])
def test_a_reshape_that_does_not_flatten_or_has_other_users_goes_alone(graph: FlowGraph) -> None:
    found = match_composites(graph, False)
    assert sorted(len(kernel.nodes) for kernel in found.kernels) == [1, 3]
    assert list(found.objections) == ["t"]


def test_clipping_activations_go_beyond() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.clip(g.conv(g.input(1, 6, 6, 3), 4), -1.0, 1.0, name="a"))
    assert refusal(graph, "a").code == "ACTIVATION"
    (kernel,) = match_composites(graph).kernels
    assert len(kernel.nodes) == 2
    assert "clip" in kernel.beyond_public[0]


@pytest.mark.parametrize("operator", ["divide", "onnx.Softplus"])
def test_operators_that_the_accelerator_lacks_are_refused_either_way(operator: str) -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 2)
    value = g.builder.values[x]
    operands = [x, x] if operator == "divide" else [x]
    name = g.builder.add(operator, operands, {}, name="n", evaluate=lambda arrays: arrays, results=[value])
    for beyond in (False, True):
        found = refusal(g.build(name), "n", beyond)
        assert found.got == operator
        assert found.code in ("ACTIVATION", "OP")


@pytest.mark.parametrize("operator", sorted(TABLES))
def test_a_function_of_a_table_is_fused_beyond_the_public_flow_and_stays_on_the_host_in_it(operator: str) -> None:
    g = GraphOf("NHWC")
    parameters = {"hard_sigmoid": {"alpha": 0.2, "beta": 0.5}, "leaky_relu": {"alpha": 0.1}}.get(operator, {})
    graph = g.build(g.op(operator, g.bias(g.conv(g.input(1, 6, 6, 3), 4)), name="a", **parameters))
    assert refusal(graph, "a").code == "ACTIVATION"
    (kernel,) = match_composites(graph).kernels
    assert [node.operator for node in kernel.nodes] == ["conv2d", "bias_add", operator]
    assert operator in kernel.beyond_public[0]


def test_an_activation_behind_the_host_stays_there_publicly_and_goes_alone_beyond() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 4, 4, 2)
    graph = g.build(g.relu(g.op("divide", x, x), name="r"))
    assert refusal(graph, "r").check == "relu.alone"
    (kernel,) = match_composites(graph).kernels
    assert (kernel.composite, kernel.operator) == ("", "relu")
    assert kernel.beyond_public


def test_nodes_that_the_user_keeps_on_the_host_are_in_no_layer() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.relu(g.bias(g.conv(g.input(1, 6, 6, 3), 4), name="b")))
    wish = Objection("REVERTED", "b", "others")
    found = match_composites(graph, False, {"b": wish})
    assert [len(kernel.nodes) for kernel in found.kernels] == [1]
    assert found.objections["b"] == wish


def test_a_public_layer_has_no_mark_beyond() -> None:
    g = GraphOf("NHWC")
    value = g.max_pool(g.relu(g.bias(g.conv(g.input(2, 8, 8, 3), 4))))
    graph = g.build(g.dense(g.flatten(value), 3))
    assert all(not kernel.beyond_public for kernel in match_composites(graph).kernels)
    assert len(match_composites(graph).kernels) == 4


def test_beyond_the_public_flow_too_nothing_is_taken_that_does_not_compile() -> None:
    g = GraphOf("NHWC")
    big = g.dense(g.input(64, 8), 4, name="big")
    deep = g.relu(g.input(1, 2, 2, 2, 2, name="y"), name="deep")
    graph = g.build(big, deep)
    assert refusal(graph, "big", beyond=True).check == "dense.batch"
    assert refusal(graph, "deep", beyond=True).check == "relu.rank"
    assert layers(graph) == [["dense"]]
