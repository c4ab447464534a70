"""The whole tensors of a graph that are in the working memory, part by part."""

from __future__ import annotations

from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.lifetimes import Lifetimes


class WorkingSet:
    """What lives in the working memory if nothing is cascaded."""

    def __init__(self, homes: Homes) -> None:
        self.graph, self.spilled = homes.graph, homes.spilled
        self.lifetimes = Lifetimes(homes.graph)
        self.sizes = homes.sizes
        """The bytes of each tensor."""
        self.alive = self.lifetimes.alive_bytes(homes.sizes)
        """The bytes that are alive before each part, and after the last."""
