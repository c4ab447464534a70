from __future__ import annotations

from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.partition.cutting import cut_out, steps
from nnhal_mlip.flow.partition.merging import merge_regions
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
