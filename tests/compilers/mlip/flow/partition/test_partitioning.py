from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import GraphOf
from tests.support.flow_networks import inception_block, mlp, mobilenet_v1, resnet50, ssd_head
from tests.support.flow_outcomes import PUBLIC_FLOW, host_operators, subgraph_outcomes


def chain() -> FlowGraph:
    g = GraphOf()
    value = g.clip(g.bias(g.conv(g.input(1, 4, 8, 8), 8, name="first")), name="six")
    value = g.max_pool(value, name="pool")
    value = g.conv(value, 8, name="second")
    value = g.relu(g.op("divide", value, value, name="soft"), name="last")
    return g.build(value)


def test_beyond_the_public_flow_only_what_the_accelerator_lacks_stays_on_the_host() -> None:
    found = partition(chain())
    assert host_operators(found) == ["divide"]
    assert len(found.subgraphs) == 2
    marked = {kernel.operator: kernel.beyond_public for each in found.subgraphs for kernel in each.kernels}
    assert marked["conv2d"] or marked["relu"]
    assert not marked["max_pool2d"]


def test_a_cost_may_revert_a_subgraph_beyond_the_public_flow() -> None:
    def dear(graph: FlowGraph, subgraph: FlowSubgraph) -> str | None:
        return None if any(kernel.operator == "conv2d" for kernel in subgraph.kernels) else "it only moves data"

    found = partition(chain(), worth=dear)
    assert host_operators(found) == ["divide", "layout_transform", "relu"]
    (reversion,) = found.reversions
    assert reversion.reason == "it only moves data"
    assert "it only moves data" in found.objections["last"].got


def test_without_reverting_all_subgraphs_stay() -> None:
    g = GraphOf()
    graph = g.build(g.max_pool(g.input(1, 4, 8, 8)))
    assert not partition(graph, PUBLIC_FLOW).subgraphs
    kept = partition(graph, FlowOptions(beyond_public=False, revert=False))
    assert [each.layers for each in subgraph_outcomes(kept)] == [("layout_transform", "Maxpool2D")]
    assert not kept.reversions


def test_the_first_layers_stay_and_the_rest_goes_to_the_host_in_its_own_layout() -> None:
    found = partition(chain(), FlowOptions(keep=3))
    assert [each.layers for each in subgraph_outcomes(found)] == [("layout_transform", "Conv2D", "Maxpool2D")]
    (conv,) = (node for node in found.host if node.operator == "conv2d")
    assert conv.text("data_layout") == "NCHW"
    assert found.objections[conv.output].check == "options.keep"
    assert "first 3 layers" in found.objections[conv.output].allowed


def test_nodes_go_to_the_host_by_the_users_names() -> None:
    found = partition(chain(), FlowOptions(to_host=("pool",)))
    (pool,) = (node for node in found.host if node.operator == "max_pool2d")
    assert found.objections[pool.output].check == "options.to_host"
    assert [each.layers.count("Conv2D") for each in subgraph_outcomes(found)][:2] == [1, 1]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(FlowError, match=r"got 'nobody'.*first.*pool.*soft"):
        partition(chain(), FlowOptions(to_host=("nobody",)))


@pytest.mark.parametrize(
    "network",
    [partial(resnet50, 64), partial(mobilenet_v1, 32), inception_block, mlp],
    ids=["resnet50", "mobilenet", "inception", "mlp"],
)
def test_networks_are_one_subgraph(network: Callable[[], FlowGraph]) -> None:
    found = partition(network())
    assert len(found.subgraphs) == 1
    assert set(host_operators(found)) <= {"softmax"}


def test_heads_of_a_detector_leave_no_layer_on_the_host() -> None:
    found = partition(ssd_head())
    assert {"conv2d", "max_pool2d", "relu", "add"}.isdisjoint(host_operators(found))
    assert set(found.objections) == {node.output for node in found.host}


def test_layers_that_only_transform_layouts_go_back_with_all_that_they_served() -> None:
    graph = chain()
    everything = tuple(source.name for node in graph.nodes for source in node.sources)
    found = partition(graph, FlowOptions(to_host=everything))
    assert not found.subgraphs
    assert "layout_transform" not in host_operators(found)
    assert {reversion.reason for reversion in found.reversions} == {"it has only layout transforms"}


def test_what_the_public_flow_would_give_back_is_marked() -> None:
    g = GraphOf("NHWC")
    pooled = partition(g.build(g.max_pool(g.input(1, 8, 8, 4))))
    g = GraphOf("NHWC")
    joined = partition(g.build(g.conv(g.concat(g.input(1, 8, 8, 4), g.input(1, 8, 8, 4, name="y")), 4)))
    for found, why in ((pooled, "neither a convolution"), (joined, "concatenation")):
        (subgraph,) = found.subgraphs
        assert all(why in mark for kernel in subgraph.kernels for mark in kernel.beyond_public)
        assert all(kernel.beyond_public for kernel in subgraph.kernels)
    g = GraphOf("NHWC")
    (kept,) = partition(g.build(g.max_pool(g.conv(g.input(1, 8, 8, 4), 4)))).subgraphs
    assert not any(kernel.beyond_public for kernel in kept.kernels)


def test_a_global_pool_of_the_maximum_is_marked_if_the_model_has_it_in_channels_first() -> None:
    for layout, shape, marked in (("NCHW", (1, 4, 8, 8), True), ("NHWC", (1, 8, 8, 4), False)):
        g = GraphOf(layout)
        (subgraph,) = partition(g.build(g.op("global_max_pool2d", g.conv(g.input(*shape), 4), layout=layout))).subgraphs
        (pool,) = (kernel for kernel in subgraph.kernels if kernel.operator == "global_max_pool2d")
        assert bool(pool.beyond_public) == marked
