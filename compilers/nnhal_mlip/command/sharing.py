"""Choice of the layers that the accelerator gets: the user's choices, and the partition that comes of them."""

from __future__ import annotations

from nnhal_mlip.costs import worth_by_cost
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import TimingProfile


def share(graph: FlowGraph, choices: FlowOptions, profile: TimingProfile, tiles: int, pinned: bool) -> FlowPartition:
    """Partition a graph. Raises FlowError for a choice that does not fit it."""
    worth = worth_by_cost(MlipOptions(profile, tiles, pinned)) if choices.beyond_public else None
    return partition(graph, choices, worth)


def rule(choices: FlowOptions) -> str:
    """Return a sentence that says which subgraphs go back to the host."""
    if choices.beyond_public:
        return (
            "A subgraph without a convolution or dense layer goes back to the host if its modelled time there is less."
        )
    return "A subgraph goes back to the host by the rules of the public flow."
