from __future__ import annotations

from nnhal_mlip.flow.files.value_layouts import value_layouts
from tests.support.flow_graphs import GraphOf


def test_element_wise_operators_hand_layouts_on_both_ways() -> None:
    g = GraphOf("NHWC")
    x, z = g.input(1, 4, 4, 2), g.input(1, 4, 4, 2, name="z")
    total = g.op("add", g.relu(x), z)
    graph = g.build(g.op("sigmoid", g.conv(total, 2, 1)))
    layouts = value_layouts(graph)
    assert {layouts[name] for name in (x, z, total, graph.nodes[-1].output)} == {"NHWC"}


def test_a_transform_separates_layouts() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 2, 4, 4)
    inner = g.op("layout_transform", g.relu(x), src_layout="NCHW", dst_layout="NHWC")
    layouts = value_layouts(g.build(g.conv(inner, 2, 1)))
    assert (layouts[x], layouts[inner]) == ("NCHW", "NHWC")


def test_what_nothing_decides_is_as_in_the_users_model() -> None:
    first = GraphOf("NHWC")
    x = first.input(1, 2, 2, 2)
    other = first.reshape(first.input(1, 8, name="z"), 1, 2, 2, 2)
    assert value_layouts(first.build(first.conv(x, 2, 1), other))[other] == "NHWC"
    assert value_layouts(first.build(first.conv(x, 2, 1, name="again"), other))["z"] == "NC"
    last = GraphOf("NCHW")
    x = last.input(1, 2, 2, 2)
    other = last.reshape(last.input(1, 8, name="z"), 1, 2, 2, 2)
    assert value_layouts(last.build(last.conv(x, 2, 1), other))[other] == "NCHW"


def test_a_transposition_hands_nothing_on() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 4, 4, 2), 2, 1)
    turned = g.transpose(x, 0, 3, 1, 2)
    pooled = g.op("global_max_pool2d", turned, layout="NCHW")
    layouts = value_layouts(g.build(pooled))
    assert (layouts[x], layouts[turned]) == ("NHWC", "NCHW")


def test_other_ranks_have_no_layout() -> None:
    g = GraphOf()
    x = g.input(2, 3, 4)
    assert value_layouts(g.build(g.relu(x)))[x] == ""
