"""A plan whose steps are prepared on their devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nnhal.arrays import Array
from nnhal.errors import invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.remote import DeviceDescription
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Model, Priority, Subgraph
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_frontends.imported import ImportedModel
from nnhal_service.fallback import FallbackLayout, FallbackMemoryManager, PassedValues, Side, lay_out, values_of
from nnhal_service.partition import Plan, Refined
from nnhal_service.runtime.plan.parts import Announcements, Parts


class Planner(Protocol):
    """Plans a model, and plans it again when its devices come and go. Safe to use from several threads."""

    @property
    def may_replan(self) -> bool:
        """Whether other devices may replace one that is gone."""
        ...

    def is_there(self, device: str) -> bool:
        """Whether a device is connected, as ``Fleet.is_there`` says."""
        ...

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        """Split the model over all other devices and prepare each step. Raises as ``planning.prepare`` does."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPlan:
    """A plan with a part for each step."""

    imported: ImportedModel
    refined: Refined
    """The partitioning, after devices have optimised their steps."""
    descriptions: Mapping[str, DeviceDescription | None]
    """What each device says of its backend; None without one."""
    parts: Parts
    dimensions: Sequence[Dimensions]
    """Of the operands of main; 0 for an unknown extent."""
    referenced_dimensions: Sequence[Sequence[Dimensions]]
    """Of the operands of each referenced subgraph."""
    element_sizes: Mapping[int, int]
    """Bytes of an element, by extension operand type."""
    constants: Sequence[Mapping[int, Array]]
    """The constants of each subgraph by operand, main first."""
    sides: Mapping[str, Side]
    """Each device as one end of an edge."""
    values: PassedValues
    """The values that pass between steps, and to and from the client."""
    memory: FallbackMemoryManager
    """The arenas for those values that belong to the framework and have a known size."""
    network: int
    """The network's number in announcements to devices."""
    announcements: Announcements
    planner: Planner
    """What made the plan."""
    left_out: frozenset[str]
    """Devices that were not to be used."""
    priority: Priority
    """Of executions that have no priority of their own."""

    @property
    def plan(self) -> Plan:
        """The steps."""
        return self.refined.partitioning.plan

    @property
    def devices(self) -> frozenset[str]:
        """The devices of the steps."""
        return frozenset(step.device for step in self.plan.steps)

    @property
    def gone(self) -> frozenset[str]:
        """The devices that have died, and their parts with them."""
        return frozenset(part.member.name for part in self.parts if part.member.remote.gone)

    @property
    def graphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs of the model, main first."""
        return (self.imported.model.main, *self.imported.model.referenced)

    def type_of(self, operand: int) -> int:
        """The element type in which an operand of main passes between steps, and to and from the client."""
        return self.plan.carried.get(operand, self.imported.model.main.operands[operand].type)

    def byte_size(self, operand: int) -> int:
        """Bytes of an operand of the source model as it passes; 0 if unknown."""
        return size_in_bytes(self.type_of(operand), self.dimensions[operand], self.element_sizes)

    def dimensions_with(self, bound: Mapping[int, Dimensions]) -> Sequence[Dimensions]:
        """The dimensions of the operands of main if a client binds operands with the dimensions ``bound``.

        Raises INVALID_ARGUMENT if they contradict the model's.
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
        """Release the parts on their devices, and the memory."""
        with self.announcements.unloading():
            self.parts.release()
            self.memory.close()


def passed_values(
    model: Model,
    plan: Plan,
    sides: Mapping[str, Side],
    dimensions: Sequence[Dimensions],
    element_sizes: Mapping[int, int],
) -> PassedValues:
    """The values of a plan; their size is 0 if the ``dimensions`` of main's operands do not determine it.

    In a compound plan, those that pass between steps of main, and between these and the client.
    """
    graph, carried = model.main, plan.carried

    def size_of(operand: int) -> int:
        return size_in_bytes(carried.get(operand, graph.operands[operand].type), dimensions[operand], element_sizes)

    steps = [step if step.scope == 0 else replace(step, inputs=(), outputs=()) for step in plan.steps]
    return values_of(steps, sides, frozenset(graph.input_indexes), frozenset(graph.output_indexes), size_of, carried)


def arena_of(plan: Plan, values: PassedValues) -> FallbackLayout:
    """The layout of the values that belong to the framework and have a known size.

    It is empty for a compound plan: a loop may run a step more than once, so that no value has a last reader.
    """
    ours = [value for value in values.values() if value.is_ours and value.size]
    return lay_out(ours if plan.walk is None else [])
