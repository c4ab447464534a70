"""Errors of a subgraph that cannot be compiled."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.errors import NnhalError


class MlipCompileError(NnhalError):
    """A subgraph cannot be compiled. The message names the user's node, and says what was got and what was expected."""


@dataclass
class MisfitOfTilesError(MlipCompileError):
    """A subgraph does not fit into the memory of the tiles."""

    wanted: int
    """Bytes of each tile that the least of all ways to run it takes."""
    available: int
    """Bytes of each tile."""
    place: str
    """The layer that takes the most: the user's names."""
    remedies: tuple[str, ...]
    """What would do, each of them alone."""

    def __str__(self) -> str:
        hint = f"; it would fit with {', or with '.join(self.remedies)}" if self.remedies else ""
        return f"{self.place}: takes {self.wanted} bytes of each tile's memory, expected at most {self.available}{hint}"
