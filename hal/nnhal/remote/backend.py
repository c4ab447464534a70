"""The descriptions that a device's backend gives beyond the HAL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from nnhal.codec import model_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.extensions import is_extension_name
from nnhal.types import FailedSubgraph, Model, OptimizationViews, Substitution, TensorHandleFactory, TransferCosts
from nnhal.v1 import backend_pb2 as wire
from nnhal.validation import validate_model

MAX_ALIGNMENT = 65_536
"""The largest alignment, in bytes: the largest page of a processor that Linux runs on. Memory is mapped at pages."""
MAX_NS = 1e15
"""The largest cost, in nanoseconds: eleven days. Sums and products of such costs are finite."""


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """Description of a device, beyond the HAL."""

    name: str
    """The device's name."""
    imports: frozenset[str]
    """Kinds of memory that it uses in place, by their names in lower case. It stages all others."""
    alignment: int
    """Bytes to which an argument must be aligned to be used in place."""
    modelled_timing: bool
    """True if the time on the device comes from a model of it rather than from a clock."""
    workers: int
    """How many executions run at the same time."""
    tensor_handle_factories: tuple[TensorHandleFactory, ...]
    """How values get into and out of the device, the preferred way first."""
    asynchronous: bool
    """True if results are visible to others only after a sync."""
    transfer_costs: TransferCosts
    """The costs that no operation causes."""
    realisation: str
    """What it really is, in a sentence: an emulation, or the hardware that it uses."""
    can_be_wired: bool = False
    """True if its executions can be stages of wired chains."""
    maps_files: bool = False
    """True if files of a tmpfs that may shrink are used in place too. Other such files are staged."""
    source_extension: str = ""
    """The extension in whose single operation it prefers to receive a whole step; empty if there is none."""
    optimizes_nothing: bool = False
    """True if it has no optimiser, so that it need not be asked to optimise a step."""
    ignores_networks: bool = False
    """True if it ignores notifications that networks are loaded and unloaded."""
    takes_files: bool = False
    """True if it may be given a whole file as one operation of ``source_extension`` without having been asked."""
    is_reference: bool = False
    """True if it is there for operations that no other device takes, and slower than others at each."""


@dataclass(frozen=True, slots=True)
class OperationSupport:
    """Answer if a device supports an operation, and if not, why."""

    supported: bool
    """True if the device can execute the operation as given."""
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
    """Answer of a device about each operation of main."""

    operations: tuple[OperationSupport, ...]
    operation_ns: tuple[float, ...]
    """Modelled nanoseconds: 0 for an operation that is not supported. Empty if the device has no cost model."""
    together: tuple[tuple[int, ...], ...] = ()
    """Operations that it takes only together, in ascending order. No two groups overlap."""


def description_from_wire(message: wire.DescribeResponse, place: str) -> DeviceDescription:
    """Check and decode a description. Raises GENERAL_FAILURE if it is invalid: no figure of it is replaced.

    A device that is wrong about its memory may be wrong about all of it, and a plan by costs that make no sense is
    worse than one without the device.
    """
    place = f"{place}: BackendService/Describe"
    costs = message.transfer_costs
    require_alignment(message.alignment, place)
    if message.workers < 0:
        general_failure(f"{place} answered with {message.workers} workers, expected 0 or more")
    if message.source_extension and not is_extension_name(message.source_extension):
        general_failure(f"{place} answered with source extension {message.source_extension!r}, which is not a name")
    for what in ("hop_ns", "sync_ns", "import_ns", "copy_ns_per_byte", "round_trip_ns"):
        _require_cost(getattr(costs, what), f"transfer_costs.{what}", place)
    if costs.round_trip_ns > costs.hop_ns:
        general_failure(
            f"{place} answered with transfer_costs.round_trip_ns {costs.round_trip_ns:g}, expected at most hop_ns, "
            f"which is {costs.hop_ns:g}"
        )
    ids = [factory.id for factory in message.tensor_handle_factories]
    if len(set(ids)) < len(ids):
        general_failure(f"{place} answered with tensor handle factories {ids}, expected each once")
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
        message.takes_files,
        message.is_reference,
    )


def assessment_from_wire(message: wire.AssessModelResponse, operations: int, place: str) -> ModelAssessment:
    """Check and decode an assessment.

    Raises GENERAL_FAILURE if it is for another number of operations, or if a cost or a group makes no sense.
    """
    place = f"{place}: BackendService/AssessModel"
    supports = tuple(OperationSupport(o.supported, o.code, o.got, o.allowed, o.hint) for o in message.operations)
    if len(supports) != operations:
        general_failure(f"{place} answered for {len(supports)} operations, expected {operations}")
    costs = tuple(message.operation_ns)
    if len(costs) not in (0, operations):
        general_failure(f"{place} answered with the costs of {len(costs)} operations, expected {operations} or none")
    for number, cost in enumerate(costs):
        _require_cost(cost, f"operation_ns of operation {number}", place)
    together = tuple(tuple(group.operations) for group in message.together)
    grouped = [number for group in together for number in group]
    is_ordered = all(first < second for group in together for first, second in pairwise(group))
    if not is_ordered or len(set(grouped)) < len(grouped) or max(grouped, default=0) >= max(operations, 1):
        general_failure(
            f"{place} answered with operations that go together {together}, expected ascending indexes of {operations} "
            "operations, each in one group at most"
        )
    return ModelAssessment(supports, costs, together)


def views_from_wire(message: wire.OptimizeSubgraphResponse, operations: int, place: str) -> OptimizationViews:
    """Check and decode the optimisation of a subgraph. Raises GENERAL_FAILURE unless it lists each operation once."""
    place = f"{place}: BackendService/OptimizeSubgraph"
    views = OptimizationViews(
        tuple(
            Substitution(
                tuple(s.operations),
                s.replacement,
                _replacement(s, place) if s.HasField("subgraph") else None,
                s.working_bytes,
            )
            for s in message.substitutions
        ),
        tuple(FailedSubgraph(tuple(f.operations), f.reason) for f in message.failed),
        tuple(message.untouched),
    )
    groups = [*(each.operations for each in views.substitutions), *(each.operations for each in views.failed)]
    seen = [*views.untouched, *(index for group in groups for index in group)]
    if sorted(seen) != list(range(operations)):
        general_failure(
            f"{place} answered with optimised operations {sorted(seen)}, expected each of {operations} operations once"
        )
    return views


def _replacement(message: wire.Substitution, place: str) -> Model:
    try:
        model = model_from_wire(message.subgraph, _no_descriptor)
        validate_model(model)
    except HalError as error:
        general_failure(f"{place} answered with {message.replacement!r}, which is no model: {error.message}")
    return model


def _no_descriptor(number: int) -> Descriptor:
    invalid_argument(f"it refers to descriptor {number}, expected constants that are copied")


def require_alignment(alignment: int, place: str) -> None:
    """Raises GENERAL_FAILURE unless an alignment is a power of two that memory can have."""
    if not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        general_failure(
            f"{place} answered with alignment {alignment}, expected a power of two from 1 to {MAX_ALIGNMENT}"
        )


def _require_cost(cost: float, what: str, place: str) -> None:
    if not 0 <= cost <= MAX_NS:  # also true for NaN
        general_failure(f"{place} answered with {what} {cost:g}, expected 0 to {MAX_NS:g}")


def _factory(message: wire.TensorHandleFactory, place: str) -> TensorHandleFactory:
    require_alignment(message.alignment, f"{place}: tensor handle factory {message.id!r}")
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
