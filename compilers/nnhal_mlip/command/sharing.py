"""What of a model the accelerator gets: the user's choices, and the partition that comes of them."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.costs import worth_by_cost
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import TimingProfile


@dataclass(frozen=True, slots=True)
class SharingChoices:
    """What the user chooses."""

    public: bool = False
    """Whether only what the public flow takes is taken."""
    keep: int | None = None
    to_host: tuple[str, ...] = ()


def share(graph: FlowGraph, choices: SharingChoices, profile: TimingProfile, tiles: int, pinned: bool) -> FlowPartition:
    """Partition a graph. Raises FlowError for a choice that does not fit it."""
    options = FlowOptions(beyond_public=not choices.public, keep=choices.keep, to_host=choices.to_host)
    return partition(graph, options, None if choices.public else worth_by_cost(MlipOptions(profile, tiles, pinned)))


def rule(choices: SharingChoices) -> str:
    """Return a sentence that says which subgraphs go back to the host."""
    if choices.public:
        return "A subgraph goes back to the host by the rules of the public flow."
    return "A subgraph without a convolution or dense layer goes back to the host if its modelled time there is less."
