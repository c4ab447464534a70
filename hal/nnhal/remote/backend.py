"""What a device's backend says of it: the HAL does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnhal.errors import general_failure
from nnhal.v1 import backend_pb2 as wire


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device takes and gives the memory of a value. Kinds of memory are names, in lower case.

    With ``fallback_import_memory_required`` memory for its results is allocated for both sides of an edge.
    """

    id: str
    imports: frozenset[str]
    exports: frozenset[str]
    maps: bool
    alignment: int
    fallback_import_memory_required: bool


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """Nanoseconds: of a launch with its end, of making results visible, of an import, and of copying a byte."""

    hop_ns: float
    sync_ns: float
    import_ns: float
    copy_ns_per_byte: float


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """What a device is. ``imports`` are names of memory kinds, in lower case; ``realisation`` what it is in truth.

    ``tensor_handle_factories`` are its ways of taking values, the preferred first.
    """

    name: str
    imports: frozenset[str]
    alignment: int
    modelled_timing: bool
    workers: int
    tensor_handle_factories: tuple[TensorHandleFactory, ...]
    asynchronous: bool
    transfer_costs: TransferCosts
    realisation: str


@dataclass(frozen=True, slots=True)
class OperationSupport:
    """Whether an operation is supported, and if not why: a stable code, what was got, what is allowed, a hint."""

    supported: bool
    code: str = ""
    got: str = ""
    allowed: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """What a device makes of a subgraph; operations by their indexes in main, each in exactly one of the three.

    ``substitutions`` are (operations, what they become), ``failed`` are (operations, why).
    """

    substitutions: tuple[tuple[tuple[int, ...], str], ...]
    failed: tuple[tuple[tuple[int, ...], str], ...]
    untouched: tuple[int, ...]


def description_from_wire(message: wire.DescribeResponse, place: str) -> DeviceDescription:
    """Check and decode a description. Raises GENERAL_FAILURE where it makes no sense."""
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
    """Check and decode what became of a subgraph. Raises GENERAL_FAILURE where an operation is not there just once."""
    views = OptimizationViews(
        tuple((tuple(s.operations), s.replacement) for s in message.substitutions),
        tuple((tuple(f.operations), f.reason) for f in message.failed),
        tuple(message.untouched),
    )
    seen = [*views.untouched, *(index for group, _ in (*views.substitutions, *views.failed) for index in group)]
    if sorted(seen) != list(range(operations)):
        general_failure(f"{place} optimised operations {sorted(seen)}, expected each of {operations} once")
    return views


def _factory(message: wire.TensorHandleFactory, place: str) -> TensorHandleFactory:
    if message.alignment < 1:
        general_failure(f"{place}: tensor handle factory {message.id!r} has alignment {message.alignment}")
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
        general_failure(f"{place} speaks of memory of kinds {unknown}, which do not exist")
    return frozenset(known[kind].removeprefix("MEMORY_KIND_").lower() for kind in kinds)
