from __future__ import annotations

import numpy as np

from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.partition.cutting import cut_out, merge_regions, steps
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def subgraphs(graph: FlowGraph) -> list[FlowSubgraph]:
    return cut_out(graph, merge_regions(graph, match_composites(graph, beyond_public=False).kernels))


def test_inputs_are_in_the_order_of_their_first_use() -> None:
    g = GraphOf("NHWC")
    y, x = g.input(1, 4, 4, 4, name="y"), g.input(1, 4, 4, 4, name="x")
    conv = g.conv(x, 4, 1)
    (subgraph,) = subgraphs(g.build(g.op("add", g.op("add", conv, y), x)))
    assert subgraph.inputs == ("x", "y")


def test_outputs_are_what_the_host_or_the_graph_needs() -> None:
    g = GraphOf("NHWC")
    one = g.conv(g.input(1, 8, 8, 4), 4, name="a")
    two = g.conv(one, 4, name="b")
    three = g.max_pool(two, name="c")
    (subgraph,) = subgraphs(g.build(g.op("sigmoid", one), two, g.op("tanh", three)))
    assert subgraph.outputs == ("a", "b", "c")


def test_numbers_and_symbols_follow_an_order_in_which_the_subgraphs_can_run() -> None:
    g = GraphOf("NHWC")
    late = g.conv(g.input(1, 8, 8, 4, name="y"), 4, 1, name="late")
    first = g.conv(g.input(1, 8, 8, 4), 4, 1, name="first")
    joined = g.op("add", late, g.op("sigmoid", first), name="joined")
    graph = g.build(joined)
    one, two = subgraphs(graph)
    assert [kernel.user_names[0] for kernel in one.kernels] == ["first"]
    assert [kernel.user_names[0] for kernel in two.kernels] == ["late", "joined"]
    assert (one.symbol, two.symbol, two.number) == ("tvmgen_mrvl_main_0", "tvmgen_mrvl_main_1", 1)


def test_steps_come_after_what_they_need() -> None:
    g = GraphOf("NHWC")
    late = g.conv(g.input(1, 8, 8, 4, name="y"), 4, 1, name="late")
    first = g.conv(g.input(1, 8, 8, 4), 4, 1, name="first")
    graph = g.build(g.op("tanh", g.op("add", late, g.op("sigmoid", first, name="h")), name="t"))
    found = steps(FlowPartition(graph, tuple(subgraphs(graph)), {}))
    assert [step.name if isinstance(step, FlowNode) else step.number for step in found] == [0, "h", 1, "t"]


def groups(graph: FlowGraph) -> list[list[str]]:
    """The names of each subgraph's layers, by the public rules."""
    kernels = match_composites(graph, beyond_public=False).kernels
    return [[kernel.user_names[0] for kernel in group] for group in merge_regions(graph, kernels)]


def test_layers_in_a_row_become_one() -> None:
    g = GraphOf("NHWC")
    value = g.conv(g.input(1, 8, 8, 4), 4, name="a")
    graph = g.build(g.conv(g.max_pool(value, name="b"), 4, 1, name="c"))
    assert groups(graph) == [["a", "b", "c"]]


def test_a_way_through_the_host_keeps_layers_apart() -> None:
    g = GraphOf("NHWC")
    one = g.conv(g.input(1, 8, 8, 4), 4, 1, name="a")
    other = g.conv(g.op("sigmoid", one), 4, 1, name="b")
    graph = g.build(g.op("add", one, other, name="s"))
    assert groups(graph) == [["a"], ["b", "s"]]


def test_a_subgraph_grows_around_the_host_if_nothing_leads_back() -> None:
    g = GraphOf("NHWC")
    one = g.conv(g.input(1, 8, 8, 4), 4, 1, name="a")
    aside = g.op("sigmoid", one, name="h")
    two = g.conv(one, 4, 1, name="b")
    graph = g.build(g.op("tanh", two), g.op("tanh", aside))
    assert groups(graph) == [["a", "b"]]


def test_what_only_reads_the_same_input_stays_apart() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 8, 8, 4)
    one, two = g.conv(x, 4, name="a"), g.conv(x, 4, name="b")
    graph = g.build(g.op("sigmoid", one), g.op("tanh", two))
    assert groups(graph) == [["a"], ["b"]]


def test_what_reads_the_same_host_operator_or_feeds_one_stays_apart() -> None:
    g = GraphOf("NHWC")
    x = g.op("sigmoid", g.input(1, 8, 8, 4))
    graph = g.build(g.op("multiply", g.conv(x, 4, name="a"), g.conv(x, 4, name="b")))
    assert groups(graph) == [["a"], ["b"]]


def test_a_common_producer_on_the_accelerator_joins() -> None:
    g = GraphOf("NHWC")
    x = g.conv(g.input(1, 8, 8, 4), 4, name="x0")
    graph = g.build(g.op("sigmoid", g.conv(x, 4, name="a")), g.op("tanh", g.conv(x, 4, name="b")))
    assert groups(graph) == [["x0", "a", "b"]]


def test_a_common_consumer_on_the_accelerator_joins() -> None:
    g = GraphOf("NHWC")
    one, two = g.conv(g.input(1, 8, 8, 4), 4, name="a"), g.conv(g.input(1, 8, 8, 4, name="y"), 4, name="b")
    assert groups(g.build(g.concat(one, two, name="c"))) == [["a", "b", "c"]]


def test_several_outputs_are_a_tuple_that_joins_if_all_are_the_accelerators() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 16)
    one, two = g.dense(x, 4, name="a"), g.dense(x, 4, name="b")
    assert groups(g.build(one, two)) == [["a", "b"]]
    g = GraphOf("NHWC")
    x = g.input(1, 16)
    one, two = g.dense(x, 4, name="a"), g.dense(x, 4, name="b")
    assert groups(g.build(one, two, g.softmax(x))) == [["a"], ["b"]]


def test_outputs_of_which_one_depends_on_another_by_the_host_stay_apart() -> None:
    g = GraphOf("NHWC")
    one = g.dense(g.input(1, 16), 4, name="a")
    two = g.dense(g.softmax(one), 4, name="b")
    assert groups(g.build(one, two)) == [["a"], ["b"]]


def test_the_operands_of_a_concatenation_on_the_host_are_a_tuple() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 16)
    heads = [g.dense(x, 4, name=name) for name in "abc"]
    assert groups(g.build(g.concat(*heads, axis=1))) == [["a", "b", "c"]]


def test_a_concatenation_on_the_host_with_an_operand_of_the_host_joins_nothing() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 16)
    heads = [g.dense(x, 4, name=name) for name in "ab"]
    assert groups(g.build(g.concat(*heads, x, axis=1))) == [["a"], ["b"]]


def test_two_subgraphs_never_wait_for_each_other() -> None:
    """Two chains, each of which needs the other's first layer by way of the host for its second layer."""
    g = GraphOf("NHWC")
    a1 = g.conv(g.input(1, 8, 8, 4), 4, 1, name="a1")
    b1 = g.conv(g.input(1, 8, 8, 4, name="y"), 4, 1, name="b1")
    a2 = g.op("add", a1, g.op("sigmoid", b1), name="a2")
    b2 = g.op("add", b1, g.op("sigmoid", a1), name="b2")
    graph = g.build(g.op("sigmoid", a2), g.op("sigmoid", b2))
    found = groups(graph)
    assert found[0] == ["a1", "a2"]
    assert sorted(found[1:]) == [["b1"], ["b2"]]


def test_values_of_different_types_are_not_joined_by_a_tuple() -> None:
    g = GraphOf("NHWC")
    half = g.builder.input("half", (1, 4), np.float16)
    graph = g.build(g.relu(half, name="a"), g.relu(g.input(1, 4), name="b"))
    kernels = match_composites(graph).kernels
    assert len(kernels) == 2
    assert len(merge_regions(graph, kernels)) == 2
