"""What comes of compiling a subgraph."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.compiler.numbers.weights import WeightsError
from nnhal_mlip.program.program import MlipProgram


@dataclass(frozen=True, slots=True)
class CompiledSubgraph:
    """A subgraph that can run."""

    binary: bytes
    program: MlipProgram
    cycles: int
    """Modelled, of a run."""
    memory: tuple[TileMemoryRange, ...]
    """What lies where in the tiles' memory, and how long."""
    weights_errors: tuple[WeightsError, ...]
    """How far the weights of each layer are from the real ones."""
