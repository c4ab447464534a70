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
from nnhal.types import Priority, Subgraph
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_service.fallback import FallbackMemoryManager, PassedValues, Side
from nnhal_service.frontends.imported import ImportedModel
from nnhal_service.partition import Plan, Refined
from nnhal_service.runtime.announcements import Announcements
from nnhal_service.runtime.parts import Parts


class Planner(Protocol):
    """Plans a model again when its devices come and go. Safe to use from several threads."""

    @property
    def may_replan(self) -> bool:
        """Whether other devices may take the place of one that is gone."""
        ...

    def is_there(self, device: str) -> bool:
        """Whether a device is connected; see ``Fleet.is_there``."""
        ...

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        """Split the model over the other devices and prepare each step. Raises as ``planning.prepare``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPlan:
    """One part for each step.

    ``dimensions`` are those of the operands of main as far as known, ``referenced_dimensions`` those of each referenced
    subgraph's; ``element_sizes`` are those of extension types, ``constants`` the arrays of each subgraph by operand,
    main first. ``values`` pass between steps and to and from the client; those that are the framework's and of known
    size lie in ``memory``. ``planner`` has made the plan, without the devices that are ``left_out``; ``priority`` is
    that of executions that have none of their own.
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
    values: PassedValues
    memory: FallbackMemoryManager
    network: int
    announcements: Announcements
    planner: Planner
    left_out: frozenset[str]
    priority: Priority

    @property
    def plan(self) -> Plan:
        """The steps."""
        return self.refined.partitioning.plan

    @property
    def devices(self) -> frozenset[str]:
        """Those of its steps."""
        return frozenset(step.device for step in self.plan.steps)

    @property
    def gone(self) -> frozenset[str]:
        """The devices whose parts have died with them."""
        return frozenset(part.member.name for part in self.parts if part.member.remote.gone)

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
        with self.announcements.unloading():
            self.parts.release()
            self.memory.close()
