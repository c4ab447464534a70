"""The modelled time of a plan: what the cost partitioner minimises, and what its report says.

The time is that of steps which run one after the other: for each step a launch and its operations, for each value that
a step takes from the client or from another step its passing, and the same for each output of the model. Two steps on
one device still pass values through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_service.partition.grow import Group
from nnhal_service.partition.problem import Problem


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step takes, nanoseconds."""

    device: str
    operations: tuple[int, ...]
    launch_ns: float
    compute_ns: float


@dataclass(frozen=True, slots=True)
class EdgeCost:
    """What it takes to pass a value between steps, by number; None is the client. ``bytes`` is 0 where not known."""

    operand: int
    source: int | None
    destination: int | None
    bytes: int
    ns: float


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The modelled time of a plan and its parts, nanoseconds."""

    steps: tuple[StepCost, ...]
    edges: tuple[EdgeCost, ...]

    @property
    def total_ns(self) -> float:
        """All of it."""
        return sum(s.launch_ns + s.compute_ns for s in self.steps) + sum(edge.ns for edge in self.edges)


def cost_of(problem: Problem, groups: Sequence[Group]) -> PlanCost:
    """The modelled time of groups of operations, each of a device by number, in an order of execution."""
    place = {number: step for step, (_, operations) in enumerate(groups) for number in operations}
    writer = {operand: number for number, written in enumerate(problem.writes) for operand in written}
    steps = []
    edges = []
    for step, (device, operations) in enumerate(groups):
        compute = sum(problem.operation_ns[number][device] for number in operations)
        steps.append(StepCost(problem.devices[device], operations, problem.step_ns[device], compute))
        for operand in dict.fromkeys(operand for number in operations for operand in problem.reads[number]):
            value = problem.values[operand]
            source = place[writer[operand]] if operand in writer else None
            if source != step:
                origin = 0 if source is None else groups[source][0] + 1
                edges.append(EdgeCost(operand, source, step, value.bytes, value.edge_ns[origin][device]))
        for operand in (operand for number in operations for operand in problem.writes[number]):
            value = problem.values[operand]
            if value.is_output:
                edges.append(EdgeCost(operand, step, None, value.bytes, value.export_ns[device + 1]))
    return PlanCost(tuple(steps), tuple(edges))


def all_connected(problem: Problem, groups: Sequence[Group]) -> bool:
    """Whether each group reads something from outside and writes something for outside, as a step must."""
    for _, operations in groups:
        mine = set(operations)
        written = {operand for number in operations for operand in problem.writes[number]}
        if not any(operand not in written for number in operations for operand in problem.reads[number]):
            return False
        values = [problem.values[operand] for operand in written]
        if not any(value.is_output or not mine.issuperset(value.readers) for value in values):
            return False
    return True
