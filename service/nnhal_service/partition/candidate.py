"""The devices that may take operations, and the user's pins."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.errors import NnhalError
from nnhal.types import Capabilities, Operation, OperationType


class PlacementError(NnhalError):
    """No device takes an operation, or a pin cannot be kept. The message has each device's reason."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that may take operations."""

    name: str
    capabilities: Capabilities
    refusals: Mapping[int, str]
    """Why the device refuses operations of main, by operation index."""
    operation_ns: Sequence[float | None] = ()
    """The modelled time of each operation of main, None or 0 if unknown; empty if the device has no cost model."""
    hop_ns: float = 0.0
    """The time that each step on the device takes to launch."""
    sync_ns: float = 0.0
    """The time that each step on the device takes to make its results visible."""
    referenced: Sequence[Mapping[int, str]] = ()
    """The refusals in each referenced subgraph. Only control flow that the framework walks needs them."""

    def refusing(self, refusals: Mapping[int, str], subgraph: int = 0) -> Candidate:
        """Return the device with further refusals in a subgraph, 0 being main; earlier refusals keep their reason.

        A subgraph that the device was not asked about is left as it is: the device takes nothing in it.
        """
        if not subgraph:
            return replace(self, refusals={**refusals, **self.refusals})
        if subgraph > len(self.referenced):
            return self
        referenced = list(self.referenced)
        referenced[subgraph - 1] = {**refusals, **referenced[subgraph - 1]}
        return replace(self, referenced=referenced)

    def refusals_in(self, subgraph: int) -> Mapping[int, str]:
        """Return the refusals in a subgraph, 0 being main; empty for a subgraph that the device was not asked about."""
        if not subgraph:
            return self.refusals
        return self.referenced[subgraph - 1] if subgraph <= len(self.referenced) else {}


@dataclass(frozen=True, slots=True)
class Pin:
    """Nodes that must run on a device: ``name:GLOB`` by the user's node names, or ``op:TYPE`` by the HAL's types."""

    match: str
    device: str

    def covers(self, operation: Operation, names: Sequence[str]) -> bool:
        """Return whether the pin covers an operation that stands for the named nodes.

        Raises PlacementError if ``match`` is malformed.
        """
        kind, _, pattern = self.match.partition(":")
        if kind == "name" and pattern:
            return any(fnmatch.fnmatchcase(name, pattern) for name in names)
        if kind == "op" and pattern:
            return operation.type <= max(OperationType) and OperationType(operation.type).name == pattern.upper()
        raise PlacementError(f"pin {self.match!r}: expected name:GLOB or op:TYPE")
