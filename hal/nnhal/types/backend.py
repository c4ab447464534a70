"""What a device says of itself beyond the HAL, in the words of Arm NN's backend interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device takes and gives the memory of a value. Kinds of memory are names, in lower case."""

    id: str
    """Unique among all devices."""
    imports: frozenset[str] = frozenset()
    """The kinds of memory that it takes as they are."""
    exports: frozenset[str] = frozenset()
    """The kinds of memory in which it leaves results for others."""
    maps: bool = True
    """Whether its memory can be mapped, and so be copied into and out of."""
    alignment: int = 1
    """In bytes."""
    fallback_import_memory_required: bool = False
    """Whether the framework allocates memory for its results, for both sides of an edge."""


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """The parts of a device's cost model that no operation causes, in nanoseconds.

    ``hop_ns`` to launch an execution and learn of its end, ``sync_ns`` to make results visible, ``import_ns`` to import
    a piece of memory.
    """

    hop_ns: float = 60_000.0
    sync_ns: float = 0.0
    import_ns: float = 1_000.0
    copy_ns_per_byte: float = 0.1


class Substitution(NamedTuple):
    """Operations that a device runs as one thing, ``replacement``."""

    operations: tuple[int, ...]
    replacement: str


class FailedSubgraph(NamedTuple):
    """Operations that a device cannot run together after all, and why."""

    operations: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """What a device makes of a subgraph. Each operation is in exactly one of the views, by its index in main."""

    substitutions: tuple[Substitution, ...] = ()
    failed: tuple[FailedSubgraph, ...] = ()
    untouched: tuple[int, ...] = ()
