"""Description of a device beyond the HAL, in the words of Arm NN's backend interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nnhal.types.model import Model


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device imports and exports the memory of a value. Kinds of memory are names in lower case."""

    id: str
    """Unique among all devices."""
    imports: frozenset[str] = frozenset()
    """Kinds of memory that it uses in place."""
    exports: frozenset[str] = frozenset()
    """Kinds of memory in which it leaves its results for other devices."""
    maps: bool = True
    """True if its memory can be mapped, and therefore copied into and out of."""
    alignment: int = 1
    """Bytes to which memory must be aligned."""
    fallback_import_memory_required: bool = False
    """True if the framework must allocate the memory for its results and have both sides of an edge import it."""
    relaxed_as_float16: bool = False
    """True if float32 values of a model with relaxed computation may pass as float16: the device holds them so."""
    keeps: bool = False
    """True if values that only this device reads and writes should lie in its own buffers (``IDevice.allocate``), which
    spares it copies: other memory it cannot reach."""


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """The costs of a run that belong to no operation, in nanoseconds."""

    hop_ns: float = 60_000.0
    """To launch an execution and learn of its end."""
    sync_ns: float = 0.0
    """To make results visible."""
    import_ns: float = 1_000.0
    """To import one piece of memory."""
    copy_ns_per_byte: float = 0.1
    is_wire: bool = False
    """True if what is copied goes over a network, to a device on another host."""
    round_trip_ns: float = 0.0
    """The part of ``hop_ns`` that is a round trip over that network; 0 without one."""


class Substitution(NamedTuple):
    """Operations that a device runs as one, which ``replacement`` describes."""

    operations: tuple[int, ...]
    replacement: str

    subgraph: Model | None = None
    """What the device is given to prepare in place of the operations; None for themselves.

    Its inputs are the values that the operations read and do not write, without constants; its outputs are the values
    that they write and that others read, or that are outputs of main; both in the order of main's operands. Its
    constants are copied, and it refers to no other subgraph. Other devices are given the operations.
    """

    working_bytes: int = 0
    """Bytes of the device's working memory that they take; 0 if it has none, or does not say."""


class FailedSubgraph(NamedTuple):
    """Supported operations that a device cannot run together, and why."""

    operations: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """The result of optimising a subgraph. Operations are indexes into main; each is in exactly one of the three."""

    substitutions: tuple[Substitution, ...] = ()
    failed: tuple[FailedSubgraph, ...] = ()
    untouched: tuple[int, ...] = ()
