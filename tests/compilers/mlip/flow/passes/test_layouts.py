"""Graphs take the accelerator's layouts and compute the same; what stays on the host gets the source's back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.graph.shapes import infer
from nnhal_mlip.flow.passes.layouts import convert_layouts, restore_layouts
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import GraphOf, operators, random_inputs
from tests.support.flow_networks import inception_block, mobilenet_v1, resnet18, ssd_head


def results(graph: FlowGraph) -> dict[str, Array]:
    """The outputs of a graph, by the user's names."""
    values = evaluate(graph, random_inputs(graph))
    return {user: values[name] for user, name in graph.outputs.items()}


def assert_same(before: FlowGraph, after: FlowGraph) -> None:
    """Check that two graphs have the same inputs and results, and that the second is well formed."""
    assert before.inputs == after.inputs
    expected, got = results(before), results(after)
    assert expected.keys() == got.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)
    known = {*after.inputs, *after.constants}
    for node in after.nodes:
        assert known.issuperset(node.inputs), node
        assert known.isdisjoint(node.outputs), node
        known.update(node.outputs)
        inferred = infer(node.operator, [after.values[name] for name in node.inputs], node.attributes, node.name)
        assert after.values[node.output].shape == inferred.shape
    assert known == set(after.values)


def converted(graph: FlowGraph, beyond_public: bool = False) -> FlowGraph:
    """The graph in the accelerator's layouts, simplified as the flow does it."""
    after = convert_layouts(graph, beyond_public)
    assert_same(graph, after)
    return simplify(after)


def restored(graph: FlowGraph, taken: Collection[str] = ()) -> FlowGraph:
    """The graph with the host's nodes in their own layouts."""
    after = restore_layouts(graph, taken)
    assert_same(graph, after)
    assert [node for node in after.nodes if node.output in taken] == [
        node for node in graph.nodes if node.output in taken
    ]
    for node in graph.nodes:
        if node.output in taken:
            assert all(after.values[name] == graph.values[name] for name in (*node.inputs, *node.outputs))
    return after


def node_of(graph: FlowGraph, user_name: str) -> FlowNode:
    return next(node for node in graph.nodes if user_name in (source.name for source in node.sources))


def layout_transforms(graph: FlowGraph) -> list[str]:
    return [node.text("dst_layout") for node in graph.nodes if node.operator == "layout_transform"]


def test_a_convolution_has_images_in_nhwc_and_weights_in_ohwi() -> None:
    g = GraphOf()
    after = converted(g.build(g.relu(g.bias(g.conv(g.input(2, 3, 8, 6), 5, (3, 2), name="c"), name="b"), name="y")))
    assert operators(after) == ["layout_transform", "conv2d", "add", "relu", "layout_transform"]
    conv, bias = node_of(after, "c"), node_of(after, "b")
    assert (conv.attributes["data_layout"], conv.attributes["kernel_layout"]) == ("NHWC", "OHWI")
    assert after.shape(conv.output) == (2, 6, 5, 5)
    assert after.shape(conv.inputs[1]) == (5, 3, 2, 3)
    assert after.shape(bias.inputs[1]) == (1, 1, 1, 5)
    assert bias.inputs[1] in after.constants
    assert layout_transforms(after) == ["NHWC", "NCHW"]


def test_depthwise_weights_have_their_single_channel_last() -> None:
    g = GraphOf()
    after = converted(g.build(g.conv(g.input(1, 6, 8, 8), 6, groups=6, name="c")))
    assert after.shape(node_of(after, "c").inputs[1]) == (6, 3, 3, 1)


@pytest.mark.parametrize("kernel_layout", ["OHWI", "HWIO", "OIHW"])
def test_images_in_nhwc_need_no_transform_whatever_the_weights_are(kernel_layout: str) -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 8, 8, 3), 5, kernel_layout=kernel_layout, name="c")
    graph = g.build(g.max_pool(g.relu(g.bias(x, name="b"))))
    after = converted(graph)
    assert operators(after) == ["conv2d", "add", "relu", "max_pool2d"]
    assert after.shape(node_of(after, "c").inputs[1]) == (5, 3, 3, 3)
    assert after.shape(node_of(after, "b").inputs[1]) == (1, 1, 1, 5)
    back = restored(after)
    assert node_of(back, "c").text("kernel_layout") == kernel_layout
    assert layout_transforms(back) == []


@pytest.mark.parametrize("batch", [8, 9])
def test_convolutions_and_max_pools_convert_up_to_a_batch_of_eight(batch: int) -> None:
    g = GraphOf()
    x = g.input(batch, 3, 8, 8)
    after = converted(g.build(g.conv(x, 4, name="c"), g.max_pool(x, name="p")))
    expected = "NHWC" if batch == 8 else "NCHW"
    assert node_of(after, "c").text("data_layout") == node_of(after, "p").text("layout") == expected


@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize("beyond_public", [False, True])
def test_average_pools_convert_alone(batch: int, beyond_public: bool) -> None:
    g = GraphOf()
    x = g.conv(g.input(batch, 3, 8, 8), 4)
    pools = g.avg_pool(x, name="a"), g.global_avg_pool(x, name="g")
    after = converted(g.build(*pools), beyond_public)
    expected = "NHWC" if batch == 1 or beyond_public else "NCHW"
    assert {node_of(after, name).text("layout") for name in "ag"} == {expected}


@pytest.mark.parametrize("beyond_public", [False, True])
def test_global_max_pools_keep_their_layout_by_the_public_rules(beyond_public: bool) -> None:
    g = GraphOf()
    after = converted(
        g.build(g.op("global_max_pool2d", g.conv(g.input(1, 3, 8, 8), 4), layout="NCHW", name="m")), beyond_public
    )
    assert node_of(after, "m").text("layout") == ("NHWC" if beyond_public else "NCHW")


def test_average_pools_of_an_unknown_batch_convert_and_convolutions_do_not() -> None:
    g = GraphOf()
    x = g.input(0, 3, 8, 8)
    after = convert_layouts(g.build(g.conv(x, 4, name="c"), g.avg_pool(x, name="a")))
    assert node_of(after, "c").text("data_layout") == "NCHW"
    assert node_of(after, "a").text("layout") == "NHWC"


def _batch_norm(g: GraphOf, x: str) -> str:
    return g.batch_norm(x)


def _pad(g: GraphOf, x: str) -> str:
    return g.pad(x, (1, 2, 3, 0), mode="edge")


def _concat(g: GraphOf, x: str) -> str:
    return g.concat(x, g.relu(x), axis=-3)


def _kept_mean(g: GraphOf, x: str) -> str:
    return g.op("mean", x, axis=(1,), keepdims=True)


def _rows_of_means(g: GraphOf, x: str) -> str:
    return g.op("tanh", g.op("mean", x, axis=(-2,), keepdims=False))


def _constant_on_the_right(g: GraphOf, x: str) -> str:
    return g.op("multiply", x, g.random_constant(4, 1, 1))


def _constant_on_the_left(g: GraphOf, x: str) -> str:
    return g.op("subtract", g.random_constant(6), x)


def _four_axes(g: GraphOf, x: str) -> str:
    return g.op("add", x, g.random_constant(2, 1, 8, 1))


@pytest.mark.parametrize(
    "add",
    [
        _batch_norm,
        _pad,
        _concat,
        _kept_mean,
        _rows_of_means,
        _constant_on_the_right,
        _constant_on_the_left,
        _four_axes,
    ],
)
def test_operators_follow_the_layout_that_arrives(add: Callable[[GraphOf, str], str]) -> None:
    g = GraphOf()
    after = converted(g.build(add(g, g.conv(g.input(2, 3, 8, 6), 4, pad=1, name="c"))))
    assert after.nodes[-1].operator in ("layout_transform", "transpose")
    assert Counter(operators(after))["layout_transform"] + Counter(operators(after))["transpose"] == 2


def test_a_chain_before_the_first_convolution_stays_in_the_layout_of_the_source() -> None:
    g = GraphOf()
    after = converted(g.build(g.conv(g.pad(g.relu(g.input(1, 3, 8, 8)), 1), 4)))
    assert operators(after) == ["relu", "pad", "layout_transform", "conv2d", "layout_transform"]


def test_the_right_operand_of_a_sum_is_brought_to_the_left_ones_layout() -> None:
    g = GraphOf()
    x, other = g.conv(g.input(1, 3, 8, 8), 4), g.input(1, 4, 6, 6, name="z")
    after = converted(g.build(g.op("add", x, other)))
    assert operators(after) == ["layout_transform", "conv2d", "layout_transform", "add", "layout_transform"]


def test_the_left_operand_wins_if_both_layouts_are_known() -> None:
    g = GraphOf()
    x = g.input(2, 4, 8, 8)
    kept = g.avg_pool(x, 3, 1, 1)
    after = converted(g.build(g.op("add", kept, g.conv(x, 4, pad=1), name="sum")))
    assert after.nodes[-1].operator == "add"
    assert layout_transforms(after) == ["NHWC", "NCHW"]


def test_an_operand_of_lower_rank_follows_the_other() -> None:
    g = GraphOf()
    z = g.input(4, 1, 6, name="z")
    after = converted(g.build(g.op("add", z, g.conv(g.input(2, 3, 8, 6), 4, pad=1))))
    assert Counter(operators(after)) == {"layout_transform": 3, "conv2d": 1, "reshape": 1, "add": 1}


def test_users_share_a_transform() -> None:
    g = GraphOf()
    x = g.input(1, 3, 8, 8)
    both = g.op("add", g.conv(x, 4, pad=1), g.conv(x, 4, 1))
    after = converted(g.build(g.softmax(both), g.reshape(both, 1, 256), both))
    assert layout_transforms(after) == ["NHWC", "NCHW"]


def test_a_squeeze_and_a_mean_of_pixels_leave_nothing_to_transform() -> None:
    g = GraphOf()
    x = g.conv(g.input(1, 3, 8, 8), 4)
    squeezed = g.squeeze(g.global_avg_pool(x), 2, 3)
    after = converted(g.build(squeezed, g.op("mean", x, axis=(2, 3), keepdims=False)))
    assert layout_transforms(after) == ["NHWC"]


def test_a_transform_stands_in_front_of_a_flatten_and_a_dense_layer() -> None:
    g = GraphOf()
    after = converted(g.build(g.bias(g.dense(g.flatten(g.conv(g.input(1, 3, 8, 8), 4)), 10), name="b")))
    assert operators(after) == ["layout_transform", "conv2d", "layout_transform", "batch_flatten", "dense", "add"]
    assert after.shape(node_of(after, "b").inputs[1]) == (10,)


def test_a_transposition_names_the_same_axes() -> None:
    g = GraphOf()
    x = g.conv(g.input(1, 3, 8, 6), 4)
    last, other = g.transpose(x, 0, 2, 3, 1), g.transpose(x, 3, 0, 1, 2)
    after = converted(g.build(g.reshape(last, 1, 96), other))
    assert sorted(operators(after)) == ["conv2d", "layout_transform", "reshape", "transpose"]


def test_weights_that_are_computed_get_a_transform_of_their_own() -> None:
    g = GraphOf()
    weight = g.relu(g.input(4, 3, 3, 3, name="w"))
    after = converted(g.build(g.bias(g.conv(g.input(1, 3, 8, 8), 4, weight=weight))))
    assert layout_transforms(after) == ["NHWC", "OHWI", "NCHW"]


def test_a_bias_that_is_computed_is_reshaped() -> None:
    g = GraphOf()
    bias = g.relu(g.input(4, name="z"))
    converted(g.build(g.op("bias_add", g.conv(g.input(1, 3, 8, 8), 4), bias, axis=1)))


def test_scales_of_channels_go_with_the_weights() -> None:
    g = GraphOf(element_type=np.int8)
    weight = g.builder.constant("w", g.random.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8), (0.1, 0.2, 0.3, 0.4), 0)
    after = convert_layouts(g.build(g.conv(g.input(1, 3, 8, 8), 4, weight=weight, name="c")))
    value = after.values[node_of(after, "c").inputs[1]]
    assert (value.axis, value.scales) == (0, (0.1, 0.2, 0.3, 0.4))


def image_layouts(graph: FlowGraph) -> list[tuple[str, ...]]:
    words = ("data_layout", "kernel_layout", "layout")
    return [tuple(node.text(word) for word in words if word in node.attributes) for node in graph.nodes]


NETWORKS: dict[str, Callable[[], FlowGraph]] = {
    "inception": inception_block,
    "mobilenet": lambda: mobilenet_v1(32, 5, width=0.25),
    "resnet": lambda: resnet18(32, 10),
    "resnet_nhwc": lambda: resnet18(32, 10, layout="NHWC"),
    "ssd": ssd_head,
}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_that_stays_on_the_host_is_as_the_user_made_it(network: str) -> None:
    graph = simplify(NETWORKS[network]())
    after = restored(converted(graph))
    words = {"bias_add": "add", "transpose": "layout_transform"}
    assert operators(after) == [words.get(operator, operator) for operator in operators(graph)]
    assert image_layouts(after) == image_layouts(graph)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seed", range(4))
def test_what_the_accelerator_has_stays_as_it_is(network: str, seed: int) -> None:
    graph = converted(NETWORKS[network]())
    random = np.random.default_rng(seed)
    restored(graph, {node.output for node in graph.nodes if random.random() < 0.5})
