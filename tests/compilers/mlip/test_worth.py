from __future__ import annotations

from dataclasses import replace

from nnhal_mlip.flow.flow_partition import FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import read_profile
from nnhal_mlip.worth import worth_by_cost
from tests.support.flow_graphs import GraphOf

OPTIONS = MlipOptions(read_profile())


def parted(graph: FlowGraph, options: MlipOptions = OPTIONS, *, every: bool = False) -> FlowPartition:
    return partition(graph, worth=worth_by_cost(options, every))


def pool(channels: int, side: int) -> FlowGraph:
    g = GraphOf()
    return g.build(g.max_pool(g.input(1, channels, side, side), 3, 1, 1))


def dense(units: int, inputs: int = 64) -> FlowGraph:
    g = GraphOf()
    return g.build(g.dense(g.input(1, inputs), units))


def test_a_small_pool_goes_back_to_the_host_and_both_times_are_told() -> None:
    found = parted(pool(4, 8))
    assert not found.subgraphs
    (reversion,) = found.reversions
    assert reversion.reason.startswith("modelled, it takes ")
    assert "5.0 µs of them to start it" in reversion.reason
    assert [objection.code for objection in found.objections.values()] == ["REVERTED"]


def test_a_pool_stays_if_the_host_is_slower() -> None:
    slow = MlipOptions(replace(read_profile(), host_operator_ns=1_000_000))
    assert len(parted(pool(4, 8), slow).subgraphs) == 1


def test_a_dense_layer_is_only_weighed_if_every_subgraph_is() -> None:
    assert len(parted(dense(10)).subgraphs) == 1
    assert not parted(dense(10), every=True).subgraphs
    assert len(parted(dense(4096, 4096), every=True).subgraphs) == 1
