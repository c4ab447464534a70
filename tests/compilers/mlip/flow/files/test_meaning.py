from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import random_inputs
from tests.support.flow_networks import inception_block, mlp, mobilenet_v1, resnet18, ssd_head
from tests.support.mlip_file_graphs import graph_of
from tests.support.mlip_subgraphs import cut, random_graph
from tests.support.random_flow_graphs import random_flow_graph


def check_meaning(partitioned: FlowPartition) -> None:
    """Compute each subgraph from its files alone, and compare with the graph."""
    graph = partitioned.graph
    values = evaluate(graph, random_inputs(graph))
    assert partitioned.subgraphs
    for subgraph in partitioned.subgraphs:
        files = describe(partitioned, subgraph)
        again = graph_of(files)
        found = evaluate(again, {f"i{i}": values[name] for i, name in enumerate(subgraph.inputs)})
        for number, name in enumerate(subgraph.outputs):
            result = found[again.outputs[f"o{number}"]]
            np.testing.assert_allclose(result, values[name], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("seed", range(40))
def test_files_say_all_of_a_subgraph(seed: int) -> None:
    check_meaning(cut(random_graph(seed)))


@pytest.mark.parametrize("beyond_public", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_files_say_all_of_what_the_flow_makes(seed: int, beyond_public: bool) -> None:
    check_meaning(partition(random_flow_graph(seed), FlowOptions(beyond_public=beyond_public, revert=False)))


@pytest.mark.parametrize(
    "network",
    [partial(resnet18, 32, 10), partial(mobilenet_v1, 32, 10, width=0.25), inception_block, ssd_head, mlp],
    ids=["resnet18", "mobilenet", "inception", "ssd", "mlp"],
)
def test_files_say_all_of_known_networks(network: Callable[[], FlowGraph]) -> None:
    check_meaning(partition(network()))
