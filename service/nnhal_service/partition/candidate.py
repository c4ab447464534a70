"""Who may take operations, and what the user demands."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.errors import NnhalError
from nnhal.types import Capabilities, Operation, OperationType


class PlacementError(NnhalError):
    """No device takes an operation, or a pin cannot be kept. The message says what each device said."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that may take operations. ``refusals`` says why not, by operation index.

    ``operation_ns`` are the modelled nanoseconds of each operation of main, None or 0 where there is no figure; empty
    where the device has no cost model. ``hop_ns`` and ``sync_ns`` are what each step on the device takes besides.
    ``referenced`` are the refusals within each referenced subgraph, as if that were main: only control flow that the
    runtime walks itself needs them.
    """

    name: str
    capabilities: Capabilities
    refusals: Mapping[int, str]
    operation_ns: Sequence[float | None] = ()
    hop_ns: float = 0.0
    sync_ns: float = 0.0
    referenced: Sequence[Mapping[int, str]] = ()

    def refusing(self, refusals: Mapping[int, str], subgraph: int = 0) -> Candidate:
        """The device with further refusals in a subgraph, 0 being main; what it said first stands.

        A device takes nothing in a subgraph that it was not asked about.
        """
        if not subgraph:
            return replace(self, refusals={**refusals, **self.refusals})
        if subgraph > len(self.referenced):
            return self
        referenced = list(self.referenced)
        referenced[subgraph - 1] = {**refusals, **referenced[subgraph - 1]}
        return replace(self, referenced=referenced)

    def refusals_in(self, subgraph: int) -> Mapping[int, str]:
        """What it refuses in a subgraph, 0 being main; nothing is known of those that it was not asked about."""
        if not subgraph:
            return self.refusals
        return self.referenced[subgraph - 1] if subgraph <= len(self.referenced) else {}


@dataclass(frozen=True, slots=True)
class Pin:
    """Nodes that must run on a device: ``name:GLOB`` of the user's node names, or ``op:TYPE`` of the HAL's."""

    match: str
    device: str

    def covers(self, operation: Operation, names: Sequence[str]) -> bool:
        """Whether an operation, which stands for the named nodes, is pinned. Raises PlacementError for a bad match."""
        kind, _, pattern = self.match.partition(":")
        if kind == "name" and pattern:
            return any(fnmatch.fnmatchcase(name, pattern) for name in names)
        if kind == "op" and pattern:
            return operation.type <= max(OperationType) and OperationType(operation.type).name == pattern.upper()
        raise PlacementError(f"pin {self.match!r}: expected name:GLOB or op:TYPE")
