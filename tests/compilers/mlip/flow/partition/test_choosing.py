from __future__ import annotations

import pytest

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.choosing import check_names, first_layers, sent_to_host
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def chain() -> FlowGraph:
    g = GraphOf("NHWC")
    value = g.relu(g.conv(g.input(1, 8, 8, 4), 4, 1, name="a"), name="ar")
    value = g.conv(value, 4, 1, name="b")
    value = g.op("divide", value, value, name="h")
    return g.build(g.conv(value, 4, 1, name="c"), g.conv(g.input(1, 8, 8, 4, name="y"), 4, 1, name="d"))


def first(count: int) -> list[str]:
    graph = chain()
    kernels = match_composites(graph).kernels
    return [kernel.user_names[0] for kernel in first_layers(graph, kernels, count)]


def test_the_first_layers_depend_on_nothing_but_the_inputs_and_each_other() -> None:
    assert first(0) == []
    assert first(1) == ["a"]
    assert first(2) == ["a", "b"]
    assert first(3) == first(9) == ["a", "b", "d"]


def test_a_negative_count_of_layers_is_an_error() -> None:
    with pytest.raises(FlowError, match="got -1"):
        first(-1)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(FlowError, match=r"got 'x'.*a, ar, b, h, c, d"):
        check_names(chain(), ["a", "x"])


def test_nodes_for_the_host_are_known_by_the_users_names() -> None:
    found = sent_to_host(chain(), ["ar", "c"])
    assert set(found) == {"ar", "c"}
    assert "ar" in found["ar"].got


def test_layers_that_only_move_data_are_counted_and_stay_for_what_they_feed() -> None:
    g = GraphOf("NHWC")
    x, y = (g.builder.input(name, (1, 4, 8, 8)) for name in "xy")
    layouts = {"src_layout": "NCHW", "dst_layout": "NHWC"}
    one, two = (g.builder.add("layout_transform", [name], layouts, name=f"{name}t") for name in (x, y))
    graph = g.build(g.conv(one, 4, name="a"), g.conv(two, 4, name="b"))
    kernels = match_composites(graph).kernels
    assert [kernel.output for kernel in first_layers(graph, kernels, 1)] == []
    assert [kernel.output for kernel in first_layers(graph, kernels, 3)] == ["xt", "a"]
