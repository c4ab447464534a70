"""The descriptions that a device's backend gives beyond the HAL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnhal.errors import general_failure
from nnhal.v1 import backend_pb2 as wire


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device takes and gives the memory of a value."""

    id: str
    """Unique among all devices."""
    imports: frozenset[str]
    """Kinds of memory that it uses in place, by their names in lower case."""
    exports: frozenset[str]
    """Kinds of memory in which it leaves its results for other devices."""
    maps: bool
    """Whether its memory can be mapped, and therefore copied into and out of."""
    alignment: int
    """Bytes to which memory must be aligned."""
    fallback_import_memory_required: bool
    """Whether the framework must allocate the memory for its results and have both sides of an edge import it."""


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """Costs in nanoseconds: of a launch and its end, of making results visible, of an import, and of copying a byte."""

    hop_ns: float
    sync_ns: float
    import_ns: float
    copy_ns_per_byte: float


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """What a device is, beyond the HAL."""

    name: str
    """The device's name."""
    imports: frozenset[str]
    """Kinds of memory that it uses in place, by their names in lower case. It stages all others."""
    alignment: int
    """Bytes to which an argument must be aligned to be used in place."""
    modelled_timing: bool
    """Whether the time on the device comes from a model of it rather than from a clock."""
    workers: int
    """How many executions run at the same time."""
    tensor_handle_factories: tuple[TensorHandleFactory, ...]
    """How values get into and out of the device, the preferred way first."""
    asynchronous: bool
    """Whether results are visible to others only after a sync."""
    transfer_costs: TransferCosts
    """The costs that no operation causes."""
    realisation: str
    """What it really is, in a sentence: an emulation, or the hardware that it uses."""


@dataclass(frozen=True, slots=True)
class OperationSupport:
    """Whether a device supports an operation, and if not, why."""

    supported: bool
    """Whether the device can execute the operation as given."""
    code: str = ""
    """A stable code for the reason; empty if the operation is supported."""
    got: str = ""
    """What the model has."""
    allowed: str = ""
    """What the device supports."""
    hint: str = ""
    """What would make it supported; empty if nothing is known to."""


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """What a device makes of a subgraph. Operations are indexes into main; each is in exactly one of the three.

    ``substitutions`` are (operations, replacement) pairs, ``failed`` are (operations, reason) pairs.
    """

    substitutions: tuple[tuple[tuple[int, ...], str], ...]
    failed: tuple[tuple[tuple[int, ...], str], ...]
    untouched: tuple[int, ...]


def description_from_wire(message: wire.DescribeResponse, place: str) -> DeviceDescription:
    """Check and decode a description. Raises GENERAL_FAILURE if it is invalid."""
    costs = message.transfer_costs
    return DeviceDescription(
        message.name,
        _kinds(message.imports, place),
        message.alignment,
        message.modelled_timing,
        message.workers,
        tuple(_factory(factory, place) for factory in message.tensor_handle_factories),
        message.asynchronous,
        TransferCosts(costs.hop_ns, costs.sync_ns, costs.import_ns, costs.copy_ns_per_byte),
        message.realisation,
    )


def views_from_wire(message: wire.OptimizeSubgraphResponse, operations: int, place: str) -> OptimizationViews:
    """Check and decode the optimisation of a subgraph. Raises GENERAL_FAILURE unless it lists each operation once."""
    views = OptimizationViews(
        tuple((tuple(s.operations), s.replacement) for s in message.substitutions),
        tuple((tuple(f.operations), f.reason) for f in message.failed),
        tuple(message.untouched),
    )
    seen = [*views.untouched, *(index for group, _ in (*views.substitutions, *views.failed) for index in group)]
    if sorted(seen) != list(range(operations)):
        general_failure(
            f"{place} answered with optimised operations {sorted(seen)}, expected each of {operations} operations once"
        )
    return views


def _factory(message: wire.TensorHandleFactory, place: str) -> TensorHandleFactory:
    if message.alignment < 1:
        general_failure(
            f"{place}: tensor handle factory {message.id!r} has alignment {message.alignment}, expected at least 1"
        )
    return TensorHandleFactory(
        message.id,
        _kinds(message.imports, place),
        _kinds(message.exports, place),
        message.maps,
        message.alignment,
        message.fallback_import_memory_required,
    )


def _kinds(kinds: Iterable[int], place: str) -> frozenset[str]:
    known: dict[int, str] = {number: name for name, number in wire.MemoryKind.items()}
    unknown = sorted(kind for kind in kinds if kind not in known)
    if unknown:
        general_failure(f"{place} names memory kinds {unknown}, which do not exist")
    return frozenset(known[kind].removeprefix("MEMORY_KIND_").lower() for kind in kinds)
