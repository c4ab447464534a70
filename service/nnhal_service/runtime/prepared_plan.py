"""A plan whose steps are prepared on their devices."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.extensions import element_sizes, size_in_bytes
from nnhal.memory import read_pools
from nnhal.remote import DeviceDescription, OptimizationViews
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import ErrorStatus, NetworkEvent
from nnhal.types.layout import Dimensions, describe
from nnhal_service.fallback import FallbackMemoryManager, Side, Values, edge_ns, lay_out, values_of
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.partition import (
    Candidate,
    Fallback,
    Options,
    Partitioning,
    PlacementError,
    Plan,
    Refined,
    Step,
    Strategy,
    Task,
    partition,
    refine,
)
from nnhal_service.runtime.compilation_cache import CacheDirectory, PrepareConfig, prepare_part
from nnhal_service.runtime.fleet import Fleet, FleetMember
from nnhal_service.runtime.parts import Part, Parts

_ALIGNMENT = 64
"""Bytes; what the HAL recommends for arguments."""
_networks = itertools.count(1)
_log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """One part for each step.

    ``dimensions`` are those of the source model's operands, as far as known; ``element_sizes`` those of extension
    types. ``values`` pass between steps and to and from the client; those that are the framework's lie in ``memory``.
    """

    imported: ImportedModel
    refined: Refined
    descriptions: Mapping[str, DeviceDescription | None]
    parts: Parts
    dimensions: Sequence[Dimensions]
    element_sizes: Mapping[int, int]
    sides: Mapping[str, Side]
    values: Values
    memory: FallbackMemoryManager
    network: int

    @property
    def plan(self) -> Plan:
        """The steps."""
        return self.refined.partitioning.plan

    def byte_size(self, operand: int) -> int:
        """Bytes of an operand of the source model; 0 where they are not known."""
        code = self.imported.model.main.operands[operand].type
        return size_in_bytes(code, self.dimensions[operand], self.element_sizes)

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
    survey = _survey(imported, fleet, devices)
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


@dataclass(frozen=True, slots=True)
class _Survey:
    """A model, and what the devices said of it."""

    task: Task
    imported: ImportedModel
    members: Mapping[str, FleetMember]
    descriptions: Mapping[str, DeviceDescription | None]
    sides: Mapping[str, Side]
    candidates: Sequence[Candidate]


def _survey(imported: ImportedModel, fleet: Fleet, devices: Sequence[str]) -> _Survey:
    members = {member.name: member for member in fleet.available(devices)}
    descriptions = {name: _describe(member) for name, member in members.items()}
    sides = {name: _side(name, description) for name, description in descriptions.items()}
    constants = inline_constants(imported.model, read_pools(imported.model.pools))
    dimensions = propagate_dimensions(ResolvedModel(imported.model, constants))
    sizes = element_sizes(imported.model, [e for member in members.values() for e in member.extensions])
    task = Task(imported.model, imported.operation_nodes, dimensions, edge_ns(sides), sizes)
    candidates = [_candidate(member, imported, sides[member.name]) for member in members.values()]
    return _Survey(task, imported, members, descriptions, sides, candidates)


def _prepare(
    survey: _Survey,
    fleet: Fleet,
    options: Options,
    failed: Mapping[str, NnhalError],
    cache: CacheDirectory | None,
) -> PreparedPlan:
    """One attempt, without the devices that have failed. Raises _PreparationError where another one does."""
    task, members = survey.task, survey.members
    refined = refine(
        [_without_failed(candidate, failed, len(task.names)) for candidate in survey.candidates],
        lambda candidates: _partition(task, candidates, options),
        lambda step: _optimised(members[step.device], step).failed,
    )
    plan = refined.partitioning.plan
    values = _values(survey.imported, plan, survey.sides, task.dimensions, task.element_sizes)
    memory = FallbackMemoryManager(lay_out([value for value in values.values() if value.is_ours]))
    network = next(_networks)

    def prepare_step(device: str, number: int) -> Part:
        member = fleet.get(device)
        config = PrepareConfig(options.preference)
        return Part(member, prepare_part(member, plan.steps[number], cache, len(plan.steps) > 1, config))

    used = [members[name] for name in dict.fromkeys(step.device for step in plan.steps)]
    for member in used:
        _notify(member, network, NetworkEvent.BEFORE_LOAD)
    parts: list[Part] = []
    for number, step in enumerate(plan.steps):
        try:
            parts.append(prepare_step(step.device, number))
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
        task.element_sizes,
        survey.sides,
        values,
        memory,
        network,
    )


def _without_failed(candidate: Candidate, failed: Mapping[str, NnhalError], operations: int) -> Candidate:
    if candidate.name not in failed:
        return candidate
    return candidate.refusing(dict.fromkeys(range(operations), f"it cannot prepare its part: {failed[candidate.name]}"))


def _partition(task: Task, candidates: Sequence[Candidate], options: Options) -> Partitioning:
    """By least modelled time; by NNAPI's rule where a device has no cost model."""
    if options.strategy == Strategy.LEAST_TIME and not all(candidate.operation_ns for candidate in candidates):
        options = replace(options, strategy=Strategy.NNAPI)
    return partition(task, candidates, options)


def _optimised(member: FleetMember, step: Step) -> OptimizationViews:
    """What a device makes of a step; one without a backend runs it as it is."""
    views = _ask(lambda: member.remote.optimize_subgraph(step.model))
    return views or OptimizationViews((), (), tuple(range(len(step.operations))))


def _describe(member: FleetMember) -> DeviceDescription | None:
    return _ask(member.remote.describe)


def _ask(question: Callable[[], T]) -> T | None:
    """What a backend answers; None from a device that has the HAL and nothing else. Raises DeadObjectError."""
    try:
        return question()
    except DeadObjectError:
        raise
    except NnhalError:
        return None


def _side(name: str, description: DeviceDescription | None) -> Side:
    """A device as one end of an edge; one without a backend takes what the HAL makes every device take."""
    return Side(name, alignment=_ALIGNMENT) if description is None else Side.of(name, description)


def _notify(member: FleetMember, network: int, event: NetworkEvent) -> None:
    """Tell a device what becomes of a network; one that does not want to know is no problem."""
    with contextlib.suppress(NnhalError):
        member.remote.notify_network(network, event)


def _candidate(member: FleetMember, imported: ImportedModel, side: Side) -> Candidate:
    """A device with what it refuses; one that cannot answer refuses everything."""
    try:
        refusals = _refusals(member, imported)
    except NnhalError as error:
        operations = range(len(imported.model.main.operations))
        return Candidate(member.name, member.capabilities, dict.fromkeys(operations, str(error)))
    costs = _costs(member, imported)
    return Candidate(member.name, member.capabilities, refusals, costs, side.costs.hop_ns)  # a sync is an edge's


def _refusals(member: FleetMember, imported: ImportedModel) -> dict[int, str]:
    """What a device does not support, and why, where it has a backend to say so. Raises as the questions do."""
    try:
        answers = member.remote.explain_support(imported.model)
    except (DeadObjectError, HalError):
        raise
    except TransportError:
        supported = member.remote.supported_operations(imported.model)
        return {index: "it does not say why" for index, answer in enumerate(supported) if not answer}
    return {
        index: f"{answer.code}: got {answer.got}, allowed {answer.allowed}"
        for index, answer in enumerate(answers)
        if not answer.supported
    }


def _costs(member: FleetMember, imported: ImportedModel) -> list[float]:
    """A device's modelled times, empty where it has none."""
    return _ask(lambda: member.remote.estimate_costs(imported.model)) or []


def _values(
    imported: ImportedModel,
    plan: Plan,
    sides: Mapping[str, Side],
    dimensions: Sequence[Dimensions],
    sizes: Mapping[int, int],
) -> Values:
    graph = imported.model.main

    def size_of(operand: int) -> int:
        return size_in_bytes(graph.operands[operand].type, dimensions[operand], sizes)

    inputs, outputs = frozenset(graph.input_indexes), frozenset(graph.output_indexes)
    values = values_of(plan.steps, sides, inputs, outputs, size_of)
    for value in values.values():
        if value.is_ours and value.size == 0:
            name = imported.operand_names[value.operand] or f"operand {value.operand}"
            raise HalError(
                ErrorStatus.GENERAL_FAILURE,
                f"{name} passes between devices and has dimensions {describe(dimensions[value.operand])}, expected "
                "all known",
            )
    return values
