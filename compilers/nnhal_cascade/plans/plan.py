"""Plans: how a group of parts is cascaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nnhal_cascade.geometry.box import Axis, Box


class WeightsIn(StrEnum):
    """Place of a part's constants while it runs."""

    NONE = "none"
    """It has none."""
    STREAMED = "streamed"
    """At rest; each stripe reads them again."""
    RESIDENT = "resident"
    """Copied to the working memory before the plan starts."""
    DOUBLE_BUFFERED = "double buffered"
    """Copied for each stripe of channels while the stripe before runs; only in plans that go along the channels."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A cascade: consecutive parts, executed as a sequence of dependent stripes.

    The output of the last part is cut into ``tiles``, one after the other. Within a tile the parts advance along
    ``along``, each by its own stripes, driven by demand: a part runs only when a later one needs what it computes. What
    lies between parts is kept in rolling buffers along ``along``, so nothing is computed twice within a tile; tiles
    recompute what they share.
    """

    parts: tuple[int, ...]
    """Indexes of consecutive parts."""
    stripes: tuple[int, ...]
    """For each part the extent of its stripes along ``along``, in elements of its output."""
    weights: tuple[WeightsIn, ...]
    """For each part where its constants are."""
    tiles: tuple[Box, ...]
    """Boxes of the last part's output, in the order in which they run; together they are all of it. One tile that is
    the whole output is the usual case; more of them need a group with one output."""
    along: Axis = Axis.ROWS
    memory: int = 0
    """Bytes of the working memory that the plan needs, with tensors that stay alive across it: an estimate that is
    exact for chains."""
    cycles: int = 0
    """Modelled cycles, with an estimate of how long it waits for constants."""
    busy: int = 0
    """Modelled cycles if it never waits for constants: a lower bound."""

    def __hash__(self) -> int:
        """Leave out what takes long and tells few plans apart, since much is kept by plan."""
        return hash((self.parts, self.stripes, self.memory, self.cycles))


@dataclass(frozen=True, slots=True)
class Proposal:
    """Disjoint plans that cover every part, in order."""

    plans: tuple[Plan, ...]
    memory: int
    """Bytes: the largest of its plans."""
    cycles: int
    """The sum of its plans."""
    spilled: frozenset[int] = frozenset()
    """Tensors whose home is not the working memory but the spill region."""

    @property
    def busy(self) -> int:
        """Modelled cycles if no plan waits for constants: a lower bound."""
        return sum(plan.busy for plan in self.plans)
