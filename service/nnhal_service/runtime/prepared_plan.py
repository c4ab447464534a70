"""A plan whose steps are prepared on their devices."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from nnhal.arrays import Array
from nnhal.errors import NnhalError, invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.remote import DeviceDescription
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import NO_DEADLINE, Model, NetworkEvent, Subgraph
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_service.fallback import FallbackMemoryManager, Side, Values
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.partition import (
    Candidate,
    Fallback,
    Options,
    Partitioning,
    PlacementError,
    Plan,
    Refined,
    Strategy,
    Task,
    partition,
    refine,
    whole,
)
from nnhal_service.runtime.compilation_cache import CacheDirectory, PrepareConfig, prepare_part
from nnhal_service.runtime.fleet import Fleet, FleetMember
from nnhal_service.runtime.parts import Part, Parts
from nnhal_service.runtime.passing import arena_of, passed_values
from nnhal_service.runtime.survey import Survey, optimised, survey_model

_networks = itertools.count(1)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """One part for each step.

    ``dimensions`` are those of the operands of main as far as known, ``referenced_dimensions`` those of each referenced
    subgraph's; ``element_sizes`` are those of extension types, ``constants`` the arrays of each subgraph by operand,
    main first. ``values`` pass between steps and to and from the client; those that are the framework's and of known
    size lie in ``memory``.
    """

    imported: ImportedModel
    refined: Refined
    descriptions: Mapping[str, DeviceDescription | None]
    parts: Parts
    dimensions: Sequence[Dimensions]
    referenced_dimensions: Sequence[Sequence[Dimensions]]
    element_sizes: Mapping[int, int]
    constants: Sequence[Mapping[int, Array]]
    sides: Mapping[str, Side]
    values: Values
    memory: FallbackMemoryManager
    network: int

    @property
    def plan(self) -> Plan:
        """The steps."""
        return self.refined.partitioning.plan

    @property
    def graphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs of the model, main first."""
        return (self.imported.model.main, *self.imported.model.referenced)

    def byte_size(self, operand: int) -> int:
        """Bytes of an operand of the source model; 0 where they are not known."""
        code = self.imported.model.main.operands[operand].type
        return size_in_bytes(code, self.dimensions[operand], self.element_sizes)

    def dimensions_with(self, bound: Mapping[int, Dimensions]) -> Sequence[Dimensions]:
        """The dimensions of the operands of main where a client binds these.

        Raises INVALID_ARGUMENT where they contradict the model's.
        """
        model = self.imported.model
        operands = list(model.main.operands)
        for operand, dimensions in bound.items():
            known = combine(self.dimensions[operand], dimensions)
            if known is None:
                name = self.imported.operand_names[operand] or f"operand {operand}"
                invalid_argument(
                    f"{name} is bound with dimensions {describe(dimensions)}, expected "
                    f"{describe(self.dimensions[operand])}"
                )
            operands[operand] = replace(operands[operand], dimensions=known)
        if all(operands[operand].dimensions == self.dimensions[operand] for operand in bound):
            return self.dimensions
        refined = replace(model, main=replace(model.main, operands=tuple(operands)))
        return propagate_dimensions(ResolvedModel(refined, tuple(self.constants)))

    def release(self) -> None:
        """Give up the parts on their devices, and the memory."""
        members = {part.member.name: part.member for part in self.parts}.values()
        for member in members:
            _notify(member, self.network, NetworkEvent.BEFORE_UNLOAD)
        self.parts.release()
        self.memory.close()
        for member in members:
            _notify(member, self.network, NetworkEvent.AFTER_UNLOAD)


def prepare(
    imported: ImportedModel,
    fleet: Fleet,
    devices: Sequence[str],
    options: Options,
    cache: CacheDirectory | None = None,
) -> PreparedPlan:
    """Split a model over devices and prepare each step; without a device that fails to, where that may be.

    Compilations are kept in ``cache``, where there is one.

    Raises PlacementError where an operation has no device, HalError where a device refuses, TransportError where one
    is gone.
    """
    survey = survey_model(imported, fleet, devices)
    failed: dict[str, NnhalError] = {}
    while True:
        try:
            return _prepare(survey, fleet, options, failed, cache)
        except PlacementError:
            if failed:
                raise next(iter(failed.values())) from None
            raise
        except _PreparationError as error:
            if options.fallback == Fallback.DENY or error.device in failed or len(survey.members) == 1:
                raise error.reason from error
            log = _log.warning if options.fallback == Fallback.WARN else _log.info
            log("a device cannot prepare its part; it is left out", device=error.device, reason=str(error.reason))
            failed[error.device] = error.reason


class _PreparationError(Exception):
    """A device could not prepare its part of a plan."""

    def __init__(self, device: str, reason: NnhalError) -> None:
        super().__init__(device, reason)
        self.device = device
        self.reason = reason


def _prepare(
    survey: Survey,
    fleet: Fleet,
    options: Options,
    failed: Mapping[str, NnhalError],
    cache: CacheDirectory | None,
) -> PreparedPlan:
    """One attempt, without the devices that have failed. Raises _PreparationError where another one does."""
    task, members = survey.task, survey.members
    refined = refine(
        [_without_failed(candidate, failed, task.model) for candidate in survey.candidates],
        lambda candidates: _partition(task, candidates, options),
        lambda step: optimised(members[step.device], step).failed,
    )
    plan = refined.partitioning.plan
    values = passed_values(task.model, plan, survey.sides, task.dimensions, task.element_sizes)
    memory = FallbackMemoryManager(arena_of(plan, values))
    network = next(_networks)

    def prepare_step(device: str, number: int | None, deadline_ns: int = NO_DEADLINE) -> Part:
        is_last_resort = device == options.cpu and options.fallback != Fallback.DENY
        member = fleet.awaited(device) if is_last_resort else fleet.get(device)
        hints = options.hints
        config = PrepareConfig(options.preference, options.priority, deadline_ns, hints.values, hints.extension_names)
        step = whole(task.model, device) if number is None else plan.steps[number]
        return Part(member, prepare_part(member, step, cache, number is not None and len(plan.steps) > 1, config))

    used = [members[name] for name in dict.fromkeys(step.device for step in plan.steps)]
    for member in used:
        _notify(member, network, NetworkEvent.BEFORE_LOAD)
    parts: list[Part] = []
    for number, step in enumerate(plan.steps):
        try:
            parts.append(prepare_step(step.device, number, options.deadline_ns))
        except NnhalError as error:
            for part in parts:
                part.prepared.release()
            for member in used:
                for event in (NetworkEvent.AFTER_LOAD, NetworkEvent.BEFORE_UNLOAD, NetworkEvent.AFTER_UNLOAD):
                    _notify(member, network, event)
            raise _PreparationError(step.device, error) from error
    for member in used:
        _notify(member, network, NetworkEvent.AFTER_LOAD)
    stand_in = options.cpu if options.fallback != Fallback.DENY and options.cpu in members else ""
    return PreparedPlan(
        survey.imported,
        refined,
        survey.descriptions,
        Parts(parts, prepare_step, stand_in),
        task.dimensions,
        task.referenced,
        task.element_sizes,
        survey.constants,
        survey.sides,
        values,
        memory,
        network,
    )


def _without_failed(candidate: Candidate, failed: Mapping[str, NnhalError], model: Model) -> Candidate:
    if candidate.name not in failed:
        return candidate
    reason = f"it cannot prepare its part: {failed[candidate.name]}"
    for number, graph in enumerate((model.main, *model.referenced)):
        candidate = candidate.refusing(dict.fromkeys(range(len(graph.operations)), reason), number)
    return candidate


def _partition(task: Task, candidates: Sequence[Candidate], options: Options) -> Partitioning:
    """By least modelled time; by NNAPI's rule where a device has no cost model."""
    if options.strategy == Strategy.LEAST_TIME and not all(candidate.operation_ns for candidate in candidates):
        options = replace(options, strategy=Strategy.NNAPI)
    return partition(task, candidates, options)


def _notify(member: FleetMember, network: int, event: NetworkEvent) -> None:
    """Tell a device what becomes of a network; one that does not want to know is no problem."""
    with contextlib.suppress(NnhalError):
        member.remote.notify_network(network, event)
