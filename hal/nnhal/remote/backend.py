"""The descriptions that a device's backend gives beyond the HAL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnhal.errors import general_failure
from nnhal.types import FailedSubgraph, OptimizationViews, Substitution, TensorHandleFactory, TransferCosts
from nnhal.v1 import backend_pb2 as wire


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
    can_be_wired: bool = False
    """Whether its executions can be stages of wired chains."""
    maps_files: bool = False
    """Whether files of a tmpfs that may shrink are used in place too. Other such files are staged."""
    source_extension: str = ""
    """The extension in whose single operation it prefers to receive a whole step; empty if there is none."""
    optimizes_nothing: bool = False
    """Whether it has no optimiser, so that it need not be asked to optimise a step."""
    ignores_networks: bool = False
    """Whether it ignores notifications that networks are loaded and unloaded."""


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
class ModelAssessment:
    """What a device says of each operation of main."""

    operations: tuple[OperationSupport, ...]
    operation_ns: tuple[float, ...]
    """Modelled nanoseconds: 0 for an operation that is not supported. Empty if the device has no cost model."""


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
        TransferCosts(
            costs.hop_ns, costs.sync_ns, costs.import_ns, costs.copy_ns_per_byte, costs.is_wire, costs.round_trip_ns
        ),
        message.realisation,
        message.can_be_wired,
        message.maps_files,
        message.source_extension,
        message.optimizes_nothing,
        message.ignores_networks,
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
    """Check and decode the optimisation of a subgraph. Raises GENERAL_FAILURE unless it lists each operation once."""
    views = OptimizationViews(
        tuple(Substitution(tuple(s.operations), s.replacement) for s in message.substitutions),
        tuple(FailedSubgraph(tuple(f.operations), f.reason) for f in message.failed),
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
        message.relaxed_as_float16,
        message.keeps,
    )


def _kinds(kinds: Iterable[int], place: str) -> frozenset[str]:
    known: dict[int, str] = {number: name for name, number in wire.MemoryKind.items()}
    unknown = sorted(kind for kind in kinds if kind not in known)
    if unknown:
        general_failure(f"{place} names memory kinds {unknown}, which do not exist")
    return frozenset(known[kind].removeprefix("MEMORY_KIND_").lower() for kind in kinds)
