"""The modelled time of a plan, which the cost partitioner minimises.

The steps run in turn. Their time is the sum of a launch and the operations of each step, of passing each value that a
step takes from the client or from another step, and of passing each output of the model to the client. Two steps on
one device also pass values through memory.

What comes over a network from a device comes once, for all readers; the first of them pays for that, or the client for
an output. What such a device keeps comes for nobody else: a value that others read too is sent back to the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_service.partition.grow import Group
from nnhal_service.partition.problem import Problem


@dataclass(frozen=True, slots=True)
class StepCost:
    """The modelled time of a step."""

    device: str
    operations: tuple[int, ...]
    launch_ns: float
    compute_ns: float


@dataclass(frozen=True, slots=True)
class EdgeCost:
    """The modelled time of passing a value."""

    operand: int
    source: int | None
    """The number of the step that writes the value; None is the client."""
    destination: int | None
    """The number of the step that reads the value; None is the client."""
    bytes: int
    """0 if the size is unknown."""
    ns: float


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The modelled time of a plan, by step and edge."""

    steps: tuple[StepCost, ...]
    edges: tuple[EdgeCost, ...]

    @property
    def total_ns(self) -> float:
        """The modelled time of the whole plan."""
        return sum(s.launch_ns + s.compute_ns for s in self.steps) + sum(edge.ns for edge in self.edges)


def cost_of(problem: Problem, groups: Sequence[Group]) -> PlanCost:
    """Return the modelled time of groups, each of a device by number, in an order of execution."""
    place = {number: step for step, (_, operations) in enumerate(groups) for number in operations}
    writer = {operand: number for number, written in enumerate(problem.writes) for operand in written}
    steps = []
    edges = []
    left = {operand for operand, value in problem.values.items() if value.is_output}
    for step, (device, operations) in enumerate(groups):
        compute = sum(problem.operation_ns[number][device] for number in operations)
        members = problem.members_of(operations)
        steps.append(StepCost(problem.devices[device], members, problem.step_ns[device], compute))
        for operand in dict.fromkeys(operand for number in operations for operand in problem.reads[number]):
            value = problem.values[operand]
            source = place[writer[operand]] if operand in writer else None
            if source is None:
                edges.append(EdgeCost(operand, None, step, value.bytes, value.edge_ns[0][device]))
            elif source != step:
                home = groups[source][0]
                price, after = value.edge_ns[home + 1][device], value.edge_ns[value.left(home + 1)][device]
                shared = home == device and any(groups[place[number]][0] != home for number in value.readers)
                edges.append(
                    EdgeCost(operand, source, step, value.bytes, after if shared or operand in left else price)
                )
                if after < price:
                    left.add(operand)
        for operand in (operand for number in operations for operand in problem.writes[number]):
            value = problem.values[operand]
            if value.is_output:
                edges.append(EdgeCost(operand, step, None, value.bytes, value.export_ns[device + 1]))
    return PlanCost(tuple(steps), tuple(edges))


def all_connected(problem: Problem, groups: Sequence[Group]) -> bool:
    """Return whether each group has inputs and outputs, as a step must."""
    for _, operations in groups:
        mine = set(operations)
        written = {operand for number in operations for operand in problem.writes[number]}
        if not any(operand not in written for number in operations for operand in problem.reads[number]):
            return False
        values = [problem.values[operand] for operand in written]
        if not any(value.is_output or not mine.issuperset(value.readers) for value in values):
            return False
    return True
