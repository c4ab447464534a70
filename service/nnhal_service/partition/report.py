"""The partitioner's report on its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_service.partition.objective import PlanCost
from nnhal_service.partition.plan import Plan

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The modelled time of a plan and of its alternatives."""

    chosen: str
    """What made the plan: the search, NNAPI's rule, or a single device for the whole model."""
    cost: PlanCost
    whole_model_ns: Mapping[str, float]
    """The time of the whole model on each device that takes all of it; pins are ignored."""
    whole_model_hand_over_ns: Mapping[str, float]
    """The part of that time that is no operation's: the launch, and passing the inputs and outputs."""
    nnapi_ns: float | None
    """The time of the plan of NNAPI's rule; None if the rule gives no plan."""
    lower_bound_ns: float
    """No plan that keeps the pins takes less."""
    evaluated: int
    """Transitions that the search evaluated."""

    @property
    def is_optimal(self) -> bool:
        """Return whether no plan has less modelled time."""
        return self.cost.total_ns <= self.lower_bound_ns * (1 + _ROUNDING)

    def lines(self) -> list[str]:
        """Return the report as text: the total, the steps, the edges, and the alternatives."""
        total = self.cost.total_ns
        lines = [f"{_microseconds(total)} modelled, by {self.chosen}"]
        for number, step in enumerate(self.cost.steps):
            parts = f"{_microseconds(step.compute_ns)} compute, {_microseconds(step.launch_ns)} launch"
            lines.append(f"step {number} on {step.device}: {len(step.operations)} operations, {parts}")
        for edge in self.cost.edges:
            ends = ["client" if end is None else f"step {end}" for end in (edge.source, edge.destination)]
            lines.append(f"operand {edge.operand}, {' -> '.join(ends)}: {edge.bytes} bytes, {_microseconds(edge.ns)}")
        lines += [f"all on {device} would be {_microseconds(ns)}" for device, ns in self.whole_model_ns.items()]
        if self.nnapi_ns is not None:
            lines.append(f"NNAPI's rule would be {_microseconds(self.nnapi_ns)}")
        if not self.is_optimal:
            lines.append(f"no plan is below {_microseconds(self.lower_bound_ns)}")
        return lines


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A plan and its report, which is None if a device of the plan has no cost model."""

    plan: Plan
    report: PlanReport | None


def _microseconds(ns: float) -> str:
    return f"{ns / 1000:.1f} us"
