"""What a plan decides. All else follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nnhal_mlip.compiler.planning.splits import LayerChoice


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """The decisions of a plan."""

    layers: tuple[LayerChoice, ...]
    in_ddr: frozenset[str] = frozenset()
    """Roots that the tiles' memory holds only by the stripe that is being computed."""
    leads: Mapping[int, int] = field(default_factory=dict)
    """By how many stages the loads for a layer are ahead of the stage that they are for, if not by one. With one, a
    load begins when the stage before last is done.
    """

    def with_layer(self, number: int, choice: LayerChoice) -> PlanChoices:
        """Return the decisions with another one for a layer."""
        return replace(self, layers=(*self.layers[:number], choice, *self.layers[number + 1 :]))

    def with_lead(self, number: int, lead: int) -> PlanChoices:
        """Return the decisions with another lead for a layer."""
        return replace(self, leads={**self.leads, number: lead})

    def ahead(self, layer: int) -> int:
        """Return by how many stages the loads for a layer are ahead."""
        return self.leads.get(layer, 1)
