"""What a device's backend says of it: the HAL does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnhal.errors import general_failure
from nnhal.types import FailedSubgraph, OptimizationViews, Substitution, TensorHandleFactory, TransferCosts
from nnhal.v1 import backend_pb2 as wire


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
class ModelAssessment:
    """What a device says of each operation of main: whether it is supported, and its modelled nanoseconds.

    ``operation_ns`` is 0 for operations that are not supported, and empty if the device has no cost model.
    """

    operations: tuple[OperationSupport, ...]
    operation_ns: tuple[float, ...]


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


def assessment_from_wire(message: wire.AssessModelResponse, operations: int, place: str) -> ModelAssessment:
    """Check and decode an assessment. Raises GENERAL_FAILURE if it is for another number of operations."""
    supports = tuple(OperationSupport(o.supported, o.code, o.got, o.allowed, o.hint) for o in message.operations)
    if len(supports) != operations:
        general_failure(f"{place} answered for {len(supports)} operations, expected {operations}")
    costs = tuple(message.operation_ns)
    if len(costs) not in (0, operations):
        general_failure(f"{place} answered with the costs of {len(costs)} operations, expected {operations} or none")
    return ModelAssessment(supports, costs)


def views_from_wire(message: wire.OptimizeSubgraphResponse, operations: int, place: str) -> OptimizationViews:
    """Check and decode what became of a subgraph. Raises GENERAL_FAILURE where an operation is not there just once."""
    views = OptimizationViews(
        tuple(Substitution(tuple(s.operations), s.replacement) for s in message.substitutions),
        tuple(FailedSubgraph(tuple(f.operations), f.reason) for f in message.failed),
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
