"""What of a model the accelerator gets: the user's choices, and the partition that comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from nnhal_mlip.costs import worth_by_cost
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.timing.profile import TimingProfile

Weighing = Literal["light", "every", "none"]
"""Which subgraphs have to be worth their hand-over: those without a convolution or dense layer, every one, or none."""


class SharingChoices(BaseModel):
    """What the user chooses."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    public: bool = False
    """Whether only what the public flow takes is taken."""
    weighing: Weighing = "light"
    """Off the public flow: by which the public flow has its own rules."""
    keep: int | None = None
    to_host: tuple[str, ...] = ()


def sharing_choices(
    public: bool, by_cost: bool, no_revert: bool, keep: int | None, to_host: Sequence[str]
) -> SharingChoices:
    """Return what options say. Raises ValueError if they contradict each other."""
    if by_cost and (public or no_revert):
        other = "--public" if public else "--no-revert"
        raise ValueError(f"got --by-cost and {other}, expected one of them")
    weighing: Weighing = "none" if no_revert else "every" if by_cost else "light"
    return SharingChoices(public=public, weighing=weighing, keep=keep, to_host=tuple(to_host))


def share(graph: FlowGraph, choices: SharingChoices, profile: TimingProfile, tiles: int, pinned: bool) -> FlowPartition:
    """Partition a graph. Raises FlowError for a choice that does not fit it."""
    options = FlowOptions(
        beyond_public=not choices.public,
        revert=choices.weighing != "none",
        keep=choices.keep,
        to_host=choices.to_host,
    )
    weighed = None if choices.public or choices.weighing == "none" else choices.weighing
    worth = worth_by_cost(MlipOptions(profile, tiles, pinned), weighed == "every") if weighed else None
    return partition(graph, options, worth)


def rule(choices: SharingChoices) -> str:
    """Return a sentence that says which subgraphs go back to the host."""
    if choices.weighing == "none":
        return "No subgraph goes back to the host."
    if choices.public:
        return "A subgraph goes back to the host by the rules of the public flow."
    if choices.weighing == "every":
        return "A subgraph goes back to the host if its modelled time there is less."
    return (
        "A subgraph without a convolution or dense layer goes back to the host if its modelled time there is less; "
        "--by-cost weighs all, --no-revert none."
    )
