from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import random_inputs
from tests.support.flow_outcomes import evaluate_outputs, evaluate_steps
from tests.support.random_flow_graphs import random_flow_graph

OPTIONS = [
    FlowOptions(),
    FlowOptions(beyond_public=False),
    FlowOptions(beyond_public=False, revert=False),
    FlowOptions(keep=2),
]


def partitions(seed: int) -> list[tuple[FlowGraph, FlowPartition]]:
    graph = random_flow_graph(seed)
    return [(graph, partition(graph, options)) for options in OPTIONS]


@pytest.mark.parametrize("seed", range(40))
def test_each_node_is_in_one_subgraph_or_on_the_host_with_a_reason(seed: int) -> None:
    for _, found in partitions(seed):
        taken = [node.output for subgraph in found.subgraphs for kernel in subgraph.kernels for node in kernel.nodes]
        assert len(taken) == len(set(taken))
        assert {node.output for node in found.graph.nodes} - set(taken) == set(found.objections)


@pytest.mark.parametrize("seed", range(40))
def test_step_after_step_computes_what_the_whole_graph_does(seed: int) -> None:
    """This needs convex subgraphs, none of which waits for another, and exact inputs and outputs."""
    for graph, found in partitions(seed):
        inputs = random_inputs(graph, seed)
        whole = evaluate_outputs(graph, inputs)
        parts = evaluate_steps(found, inputs)
        assert parts.keys() == whole.keys()
        for name, values in parts.items():
            np.testing.assert_allclose(values, whole[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_the_first_layers_hand_over_once(seed: int) -> None:
    found = partition(random_flow_graph(seed), FlowOptions(keep=3))
    assert len(found.subgraphs) <= 1
    for subgraph in found.subgraphs:
        assert set(subgraph.inputs) <= set(found.graph.inputs)
        assert sum(bool(kernel.user_names) for kernel in subgraph.kernels) <= 3


@pytest.mark.parametrize("seed", range(20))
def test_public_partitions_take_nothing_that_is_marked(seed: int) -> None:
    found = partition(random_flow_graph(seed), FlowOptions(beyond_public=False))
    assert not any(kernel.beyond_public for subgraph in found.subgraphs for kernel in subgraph.kernels)
