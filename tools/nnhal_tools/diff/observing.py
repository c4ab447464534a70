"""Show the values inside a model without changing what it computes.

A compiler fuses operations, and asking for a value between them may keep it from doing so: then the values are not
those of the model as it runs. So values are taken only from runs whose outputs have the very bits of the untouched
model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_tools.diff.subject import Values

MOST_PROBES = 200
"""Runs that look for values inside one piece of a model; those that are not found then count as fused."""


class Piece(Protocol):
    """A model that can be run with more outputs."""

    def run(self, shown: Sequence[int]) -> list[Mapping[int, Array]]:
        """Return the outputs for each sample, and the values ``shown``. Raises HalError if it cannot show these."""
        ...

    def cut_at(self, value: int) -> list[Mapping[int, Array]]:
        """Run the model in two: what comes before a value, and the rest. Return all outputs, and the value.

        Raises HalError if it cannot be cut there.
        """
        ...


@dataclass(slots=True)
class Observed:
    """Values that a piece shows."""

    samples: list[dict[int, Array]]
    """Outputs and inner values of each sample."""
    fused: list[int] = field(default_factory=list)
    """Values that cannot be shown without changing the outputs, or not at all."""
    runs: int = 1
    repeats: bool = True
    """Whether the untouched model gives the same bits when it runs again."""


def observe(piece: Piece, inner: Sequence[int], first: int | None = None) -> Observed:
    """Return the outputs of a piece and as many of its inner values as are exact.

    All of them are asked for at once, or ``first`` of them, and twice as many each time that it works: a compiler may
    take long until it finds that it cannot keep so many outputs.
    """
    found = Observed([dict(values) for values in piece.run(())])
    search = _Search(piece, [dict(values) for values in found.samples], found)
    left, size = list(inner), first or len(inner)
    while left:
        whole = search.probe(left[:size])
        left, size = left[size:], 2 * size if whole else max(1, size // 2)
    return found


@dataclass(slots=True)
class _Search:
    piece: Piece
    untouched: Sequence[Values]
    """The outputs of the piece as it is."""
    found: Observed
    _ran_again: bool = False

    def probe(self, inner: list[int]) -> bool:
        """Show values together; those that cannot be are shown in halves, and the last ones at a cut.

        Returns whether they could be shown together.
        """
        if self.found.runs >= MOST_PROBES:
            self.found.fused += inner
        elif self._takes(inner):
            return True
        elif len(inner) > 1:
            half = len(inner) // 2
            self.probe(inner[:half])
            self.probe(inner[half:])
        elif not self._takes(inner, is_cut=True):
            self.found.fused += inner
        return False

    def _takes(self, inner: Sequence[int], is_cut: bool = False) -> bool:
        """Take values of a run if its outputs are those of the untouched piece, and return whether they are."""
        self.found.runs += 1
        try:
            samples = self.piece.cut_at(inner[0]) if is_cut else self.piece.run(inner)
        except HalError:
            return False
        if not _is_same(samples, self.untouched) and self._repeats():
            return False
        for mine, values in zip(self.found.samples, samples, strict=True):
            mine.update({operand: values[operand] for operand in inner})
        return True

    def _repeats(self) -> bool:
        """Return whether the untouched piece gives the same bits again: else other bits are no evidence."""
        if not self._ran_again:
            self._ran_again = True
            self.found.runs += 1
            self.found.repeats = _is_same(self.piece.run(()), self.untouched)
        return self.found.repeats


def _is_same(samples: Sequence[Values], untouched: Sequence[Values]) -> bool:
    """Return whether the outputs have the same bits."""
    return all(
        values[operand].shape == array.shape and np.array_equal(_bits(values[operand]), _bits(array))
        for values, first in zip(samples, untouched, strict=True)
        for operand, array in first.items()
    )


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
