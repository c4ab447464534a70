"""A plan whose steps are prepared on their devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, NnhalError
from nnhal.extensions import element_sizes, size_in_bytes
from nnhal.memory import Lifetime, plan_arena, read_pools
from nnhal.remote import RemotePreparedModel
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import ErrorStatus, OperandLifeTime
from nnhal.types.layout import Dimensions, describe
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.partition import Candidate, Pin, Plan, assign, split
from nnhal_service.runtime.fleet import Fleet, FleetMember

_ALIGNMENT = 64
"""Bytes; what the HAL recommends for arguments."""


@dataclass(frozen=True, slots=True)
class Part:
    """A step, prepared."""

    member: FleetMember
    prepared: RemotePreparedModel


@dataclass(frozen=True, slots=True)
class Arena:
    """Where values between steps lie: offsets by operand, and bytes in all."""

    offsets: dict[int, int]
    size: int


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """One part for each step.

    ``dimensions`` are those of the source model's operands, as far as known; ``element_sizes`` those of extension
    types.
    """

    imported: ImportedModel
    plan: Plan
    parts: tuple[Part, ...]
    dimensions: tuple[Dimensions, ...]
    arena: Arena
    element_sizes: Mapping[int, int]

    def byte_size(self, operand: int) -> int:
        """Bytes of an operand of the source model; 0 where they are not known."""
        code = self.imported.model.main.operands[operand].type
        return size_in_bytes(code, self.dimensions[operand], self.element_sizes)

    def release(self) -> None:
        """Give up the parts on their devices."""
        for part in self.parts:
            part.prepared.release()


def prepare(imported: ImportedModel, fleet: Fleet, devices: Sequence[str], pins: Sequence[Pin]) -> PreparedPlan:
    """Split a model over devices and prepare each step.

    Raises PlacementError where an operation has no device, HalError where a device refuses, TransportError where one
    is gone.
    """
    members = {member.name: member for member in fleet.available(devices)}
    candidates = [_candidate(member, imported) for member in members.values()]
    chosen = assign(imported.model, imported.operation_nodes, candidates, pins)
    constants = inline_constants(imported.model, read_pools(imported.model.pools))
    dimensions = propagate_dimensions(ResolvedModel(imported.model, constants))
    plan = split(imported.model, chosen, dimensions)
    sizes = element_sizes(imported.model, [e for member in members.values() for e in member.extensions])
    arena = _arena(imported, plan, dimensions, sizes)
    parts: list[Part] = []
    try:
        for step in plan.steps:
            member = members[step.device]
            parts.append(Part(member, member.remote.prepare_model(step.model)))
    except BaseException:
        for part in parts:
            part.prepared.release()
        raise
    return PreparedPlan(imported, plan, tuple(parts), dimensions, arena, sizes)


def _candidate(member: FleetMember, imported: ImportedModel) -> Candidate:
    """A device with what it refuses; one that cannot answer refuses everything."""
    try:
        answers = member.remote.explain_support(imported.model)
    except NnhalError as error:
        operations = range(len(imported.model.main.operations))
        return Candidate(member.name, member.capabilities, dict.fromkeys(operations, str(error)))
    refusals = {
        index: f"{answer.code}: got {answer.got}, allowed {answer.allowed}"
        for index, answer in enumerate(answers)
        if not answer.supported
    }
    return Candidate(member.name, member.capabilities, refusals)


def _arena(imported: ImportedModel, plan: Plan, dimensions: Sequence[Dimensions], sizes: Mapping[int, int]) -> Arena:
    graph = imported.model.main
    crossing = {
        operand: steps
        for operand, steps in plan.crossing().items()
        if graph.operands[operand].lifetime == OperandLifeTime.TEMPORARY_VARIABLE
    }
    lifetimes = []
    for operand, (first, last) in crossing.items():
        size = size_in_bytes(graph.operands[operand].type, dimensions[operand], sizes)
        if size == 0:
            name = imported.operand_names[operand] or f"operand {operand}"
            raise HalError(
                ErrorStatus.GENERAL_FAILURE,
                f"{name} passes between devices and has dimensions {describe(dimensions[operand])}, expected all known",
            )
        lifetimes.append(Lifetime(size, first, last))
    offsets, size = plan_arena(lifetimes, _ALIGNMENT)
    return Arena(dict(zip(crossing, offsets, strict=True)), size)
