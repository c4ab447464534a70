from __future__ import annotations

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.cutting import cut_out, merge_regions
from nnhal_mlip.flow.partition.reverting import public_reason, too_many_ports
from nnhal_mlip.flow.patterns.matching import match_composites
from tests.support.flow_graphs import GraphOf


def reasons(graph: FlowGraph) -> list[str | None]:
    groups = merge_regions(graph, match_composites(graph, beyond_public=False).kernels)
    return [public_reason(subgraph) for subgraph in cut_out(graph, groups)]


def test_a_subgraph_without_a_convolution_or_dense_layer_goes_back() -> None:
    g = GraphOf("NHWC")
    (reason,) = reasons(g.build(g.max_pool(g.input(1, 8, 8, 4))))
    assert reason is not None
    assert "neither a convolution nor a dense" in reason


def test_a_subgraph_whose_input_goes_into_a_concatenation_goes_back() -> None:
    g = GraphOf("NHWC")
    conv = g.conv(g.input(1, 8, 8, 4), 4, 1)
    (reason,) = reasons(g.build(g.concat(conv, g.input(1, 8, 8, 4, name="y"), name="c")))
    assert reason is not None
    assert "input y" in reason
    assert "concatenation c" in reason


def test_a_concatenation_of_what_the_subgraph_computes_stays() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 8, 8, 4)
    assert reasons(g.build(g.concat(g.conv(x, 4, 1), g.max_pool(x, 1, 1)))) == [None]


def test_a_leading_sum_stays() -> None:
    g = GraphOf("NHWC")
    total = g.op("add", g.input(1, 8, 8, 4), g.input(1, 8, 8, 4, name="y"))
    assert reasons(g.build(g.conv(total, 4))) == [None]


def test_a_concatenation_before_a_sum_with_an_input_goes_back() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 8, 8, 4)
    both = g.concat(g.conv(x, 4, 1), g.conv(x, 4, 1), name="c")
    (reason,) = reasons(g.build(g.op("add", g.input(1, 8, 8, 8, name="z"), g.max_pool(both, 1, 1), name="t")))
    assert reason is not None
    assert "input z goes into t, which follows the concatenation c" in reason


def test_a_concatenation_behind_all_layers_with_inputs_stays() -> None:
    g = GraphOf("NHWC")
    x = g.input(1, 8, 8, 4)
    total = g.op("add", g.conv(x, 4, 1), g.input(1, 8, 8, 4, name="y"))
    assert reasons(g.build(g.conv(g.concat(total, g.conv(x, 4, 1)), 4))) == [None]


def test_a_subgraph_has_no_more_inputs_and_outputs_than_a_binary() -> None:
    def found(count: int) -> str | None:
        g = GraphOf("NHWC")
        conv = g.conv(g.input(1, 4, 4, 4), 4, 1)
        for number in range(count):
            conv = g.op("add", conv, g.input(1, 4, 4, 4, name=f"y{number}"))
        graph = g.build(conv)
        (subgraph,) = cut_out(graph, merge_regions(graph, match_composites(graph).kernels))
        return too_many_ports(subgraph)

    assert found(31) is None
    reason = found(32)
    assert reason is not None
    assert "33 inputs" in reason
