"""A plan whose steps are prepared on their devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from nnhal.errors import invalid_argument
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Priority
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_service.fallback import FallbackMemoryManager
from nnhal_service.partition import Pin, Strategy
from nnhal_service.runtime.plan.parts import Announcements, Parts
from nnhal_service.runtime.plan.sketch import SketchedPlan


class Planner(Protocol):
    """Plans a model, and plans it again when its devices come and go. Safe to use from several threads."""

    @property
    def may_replan(self) -> bool:
        """Return whether other devices may replace one that is gone."""
        ...

    @property
    def is_complete(self) -> bool:
        """Return whether all devices that it may plan over are there."""
        ...

    def is_there(self, device: str) -> bool:
        """Return whether a device is connected, as ``Fleet.is_there`` says."""
        ...

    def is_withdrawn(self, device: str) -> bool:
        """Return whether plans are to do without a device, though it may be there (see ``Fleet.withdrawn``)."""
        ...

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        """Split the model over all other devices and prepare each step. Raises as ``planning.prepare`` does."""
        ...

    def ask_again(self) -> bool:
        """Ask the devices about the model again, since one was restarted, perhaps with a driver that was changed.

        Returns whether they answer otherwise than before; later plans are by the new answers. Nothing is asked as long
        as a device is gone. Raises as ``planning.prepare`` does.
        """
        ...

    def in_operations(self, plan: SketchedPlan) -> SketchedPlan:
        """Return a plan with one entry for each operation, though devices may run several as one. May ask devices."""
        ...

    def sketch(self) -> SketchedPlan:
        """Split the model over the devices; none prepares anything. Raises PlacementError."""
        ...

    def first_run(self, plan: PreparedPlan) -> AbstractContextManager[None]:
        """Remember within the context if a device dies of its step of a plan; see FatalModels."""
        ...

    def choose(self, pins: Sequence[Pin], devices: Sequence[str] = (), strategy: Strategy | None = None) -> Planner:
        """A planner of the same model by these pins, over these devices, as they are at this moment.

        No ``devices`` and no ``strategy`` stand for those of this planner. What is known of the model is not asked
        again. Raises PlacementError if a pin's device is not there, LookupError for an unknown device.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPlan(SketchedPlan):
    """A plan with a part for each step."""

    parts: Parts
    memory: FallbackMemoryManager
    """The arenas of the layout."""
    announcements: Announcements
    planner: Planner
    """What made the plan."""
    priority: Priority
    """The priority of executions that have no priority of their own."""

    @property
    def network(self) -> int:
        """The network's number in announcements to devices."""
        return self.announcements.network

    @property
    def gone(self) -> frozenset[str]:
        return frozenset(part.member.name for part in self.parts if part.member.remote.gone)

    def in_operations(self) -> SketchedPlan:
        """The plan, in which each operation is told. It may take as long as to import the model."""
        return self.planner.in_operations(self)

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
        return propagate_dimensions(ResolvedModel(refined, tuple(self.survey.constants)))

    def release(self) -> None:
        with self.announcements.unloading():
            self.parts.release()
            self.memory.close()
