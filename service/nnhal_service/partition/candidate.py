"""The devices that may take operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.errors import NnhalError
from nnhal.types import Capabilities, ErrorStatus


class PlacementError(NnhalError):
    """No device takes an operation, or a pin cannot be kept. The message has each device's reason."""

    def __init__(self, message: str, operation: int | None = None) -> None:
        """``operation`` is the index in main of the one that no device takes, if it is about a single one."""
        super().__init__(message)
        self.operation = operation


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
    together: Sequence[tuple[int, ...]] = ()
    """Operations of main that the device takes only together, in ascending order."""
    unanswered: ErrorStatus = ErrorStatus.NONE
    """The status of a device that could not answer, which may take later what it refuses now: no room, gone."""

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
