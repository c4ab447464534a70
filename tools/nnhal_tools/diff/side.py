"""Parts that both sides of a comparison share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nnhal_tools.diff.subject import Values


@dataclass(frozen=True, slots=True)
class SideValues:
    """Values that one side computes."""

    samples: Sequence[Values]
    """The values of each sample. Operands that are missing are not shown by this side."""
    fused: tuple[int, ...] = ()
    """Values that it computes only inside of something else."""
    notes: tuple[str, ...] = ()


class ComparedSide(Protocol):
    """A device, or a runtime in this process."""

    name: str

    def observe(self, samples: Sequence[Values]) -> SideValues:
        """Run the model on each sample of its inputs, and return its values, those inside too.

        Raises HalError or ValueError if it cannot run the model.
        """
        ...
