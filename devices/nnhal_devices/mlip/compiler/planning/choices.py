"""What a plan decides. All else follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnhal_devices.mlip.compiler.planning.splits import LayerChoice


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """The decisions of a plan."""

    layers: tuple[LayerChoice, ...]
    in_ddr: frozenset[str] = frozenset()
    """Roots that the tiles' memory holds only by the stripe that is being computed."""
    late: frozenset[int] = frozenset()
    """Layers whose loads wait until the stage before them is done, so that their memory is taken later."""
    lead: int = 1
    """By how many stages a load may be ahead of the one it is for. With 1 a load begins when the stage before last is
    done.
    """

    def with_layer(self, number: int, choice: LayerChoice) -> PlanChoices:
        """Return the decisions with another one for a layer."""
        return replace(self, layers=(*self.layers[:number], choice, *self.layers[number + 1 :]))

    def ahead(self, layer: int) -> int:
        """Return by how many stages the loads for a layer are ahead."""
        return 0 if layer in self.late else self.lead
