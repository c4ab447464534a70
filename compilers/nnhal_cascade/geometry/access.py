"""Along one axis: which interval of an input an operator reads for an interval of its output.

Exact if the dependency is affine, with paddings cut off, and never too small. What an operator reads from its padding
is no element of the input, so an interval may be empty.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from nnhal_cascade.geometry.box import Interval


class AffineRow(NamedTuple):
    """The dependency as the RFC's matrices have it: ``length = coefficient * output length + constant``.

    ``offset`` is where the input's first stripe starts. Nothing is cut off at the borders of the input.
    """

    coefficient: float
    constant: float
    offset: int


class AxisAccess(Protocol):
    """The dependency along one axis. Equal dependencies have equal hashes, since answers about them are kept."""

    def __hash__(self) -> int: ...

    def needs(self, wanted: Interval) -> Interval:
        """Return the interval of the input, within its borders, that an interval of the output depends on."""
        ...

    def affine(self) -> AffineRow:
        """Return the row of the propagator's matrix, and its offset."""
        ...
