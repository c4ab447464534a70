"""The partitioner: from a model, what devices say about it and the user's options, to a plan and its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf

from nnhal.types import NO_DEADLINE, NO_HINTS, ExecutionPreference, Hints, Model, Priority
from nnhal.types.layout import Dimensions, is_extension
from nnhal_service.partition.assign import best_devices
from nnhal_service.partition.candidate import Candidate, PlacementError
from nnhal_service.partition.compound_plan import interpret
from nnhal_service.partition.control_flow import is_control_flow
from nnhal_service.partition.grow import Group, grow
from nnhal_service.partition.merge import merge_small
from nnhal_service.partition.objective import PlanCost, all_connected, cost_of
from nnhal_service.partition.pins import Pin
from nnhal_service.partition.plan import CompoundPlan, Fallback, Plan
from nnhal_service.partition.problem import EdgeNs, Problem, modelled_ns, problem_of
from nnhal_service.partition.report import Partitioning, PlanReport
from nnhal_service.partition.search import SearchResult, search
from nnhal_service.partition.step_model import StepError, plan_of
from nnhal_service.partition.support import (
    CPU,
    require_pins,
    strictly_sliced,
    supporting,
    without_unsized_control_flow,
)
from nnhal_service.partition.units import contracted, with_whole_units


class Strategy(Enum):
    """Rule by which the plan is made: for the least modelled time, by NNAPI's rule, or all on the CPU."""

    LEAST_TIME = "least_time"
    NNAPI = "nnapi"
    CPU_ONLY = "cpu_only"


@dataclass(frozen=True, slots=True)
class Options:
    """The user's demands on a loaded model."""

    strategy: Strategy = Strategy.LEAST_TIME
    pins: tuple[Pin, ...] = ()
    """The last pin that covers an operation counts."""
    min_nodes_per_partition: int = 1
    """Steps with fewer operations are merged with their neighbours."""
    fallback: Fallback = Fallback.ALLOW
    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE
    """When the model must have been prepared, an instant of CLOCK_BOOTTIME."""
    hints: Hints = NO_HINTS
    """Passed to the devices."""
    cpu: str = CPU
    """The name of the device that acts as NNAPI's CPU."""
    memory_kind: str = ""
    """The kind of memory of the client's values; empty for that of which devices copy the least."""
    relaxed: bool = False
    """True if float32 may be computed with the range and precision of float16, also if the model does not say so."""


@dataclass(frozen=True, slots=True)
class Task:
    """A model to be partitioned."""

    model: Model
    names: Sequence[Sequence[str]]
    """The user's node names of each operation of main."""
    dimensions: Sequence[Dimensions]
    """The propagated dimensions of each operand of main; 0 for an unknown dimension."""
    edge_ns: EdgeNs
    """The cost of passing a value."""
    element_sizes: Mapping[int, int] = field(default_factory=dict)
    """Bytes of an element of each extension type."""
    referenced: Sequence[Sequence[Dimensions]] = ()
    """The dimensions of the operands of each referenced subgraph; empty if they have not been propagated."""
    left_ns: EdgeNs | None = None
    """The cost of passing a value that has left its device already, if that is another than ``edge_ns``."""


def partition(task: Task, candidates: Sequence[Candidate], options: Options) -> Partitioning:
    """Return the plan and its report.

    NNAPI and CPU_ONLY need no cost models. The plan of LEAST_TIME is optimal if its report says so, and never takes
    more modelled time than the plan of NNAPI's rule or any single device that may take the whole model. With NNAPI the
    framework may walk control flow; such a plan has no report. Raises PlacementError if no device takes an operation
    or a pin cannot be kept.
    """
    candidates = strictly_sliced(task.model, candidates, options.cpu)
    candidates = without_unsized_control_flow(task.model, candidates, options.cpu)
    require_pins(task.model, task.names, candidates, options.pins)
    if options.strategy == Strategy.CPU_ONLY:
        candidates = [candidate for candidate in candidates if candidate.name == options.cpu]
    if options.strategy == Strategy.LEAST_TIME:
        candidates = [_costed(candidate, len(task.names)) for candidate in candidates]
    found = _Given(task, candidates, options)
    chosen = _least_time(found) if options.strategy == Strategy.LEAST_TIME else _nnapi(found)
    return replace(chosen, plan=replace(chosen.plan, fallback=options.fallback))


def may_fall_back(model: Model, options: Options) -> bool:
    """Return whether the whole model may go to the CPU if a step cannot be made, prepared or executed.

    It may not if there are pins, which would be broken, or operations of extensions.
    """
    graphs = (model.main, *model.referenced)
    extended = any(is_extension(operation.type) for graph in graphs for operation in graph.operations)
    return options.fallback != Fallback.DENY and not options.pins and not extended


class _Given:
    """Input of a partition: the problem, in units of operations that move together, and NNAPI's answer to it."""

    def __init__(self, task: Task, candidates: Sequence[Candidate], options: Options) -> None:
        self.task, self.options, self.asked = task, options, candidates
        """``asked`` has the devices as they are, ``candidates`` with all or nothing of each unit."""
        self.candidates, units = with_whole_units(task.model, task.names, candidates, options.pins)
        able = supporting(task.model, task.names, self.candidates, options.pins)
        self.problem = contracted(_problem(task, self.candidates, able), units)
        self.prices = _Prices(self.problem)
        chosen = best_devices(
            task.model, task.names, self.candidates, options.pins, options.cpu, options.preference, units
        )
        numbers = {candidate.name: number for number, candidate in enumerate(candidates)}
        self.by_rule = grow(self.problem.needs, [numbers[chosen[members[0]]] for members in self.problem.members])

    def plan(self, groups: Sequence[Group]) -> Plan:
        """Return the plan of groups. Raises StepError."""
        named = [(self.problem.devices[device], self.problem.members_of(numbers)) for device, numbers in groups]
        return plan_of(self.task.model, named, self.task.dimensions)


def _nnapi(given: _Given) -> Partitioning:
    task, problem, options = given.task, given.problem, given.options
    try:
        walk = _walk(task, given.candidates, options)
        if walk is not None:
            return Partitioning(Plan(walk.executable, walk=walk), None)
        groups: Sequence[Group] = merge_small(problem, given.by_rule, options.min_nodes_per_partition, options.cpu)
        plan = given.plan(groups)
    except StepError:
        if not may_fall_back(task.model, options):
            raise
        cpu = [candidate for candidate in given.candidates if candidate.name == options.cpu]
        supporting(task.model, task.names, cpu, ())
        groups = _whole(problem, options.cpu)
        plan = given.plan(groups)
    return Partitioning(plan, _report(given, groups, "NNAPI's rule", SearchResult(None, 0.0, 0)))


def _walk(task: Task, candidates: Sequence[Candidate], options: Options) -> CompoundPlan | None:
    """Return the plan in which the framework walks control flow; None if NNAPI's rule leaves nothing to walk."""
    if options.strategy != Strategy.NNAPI or not any(map(is_control_flow, task.model.main.operations)):
        return None
    inner = task.referenced or [[operand.dimensions for operand in graph.operands] for graph in task.model.referenced]
    walk = interpret(
        task.model,
        task.names,
        candidates,
        [task.dimensions, *inner],
        options.pins,
        cpu=options.cpu,
        preference=options.preference,
    )
    return walk if walk.has_control_flow else None


def _least_time(given: _Given) -> Partitioning:
    problem, prices = given.problem, given.prices
    known: dict[str, Sequence[Group]] = {"NNAPI's rule": given.by_rule}
    known |= {f"all on {name}": _whole(problem, name) for name in problem.devices}
    found = search(problem, min(map(prices.feasible_ns, known.values())))
    if found.groups is not None:
        regrown = grow(problem.needs, _devices(problem, found.groups))
        known = {"search": found.groups, "search, regrown": regrown, **known}
    ranked = sorted(
        ((prices.feasible_ns(groups), name, groups) for name, groups in _merged(problem, known, given.options)),
        key=lambda entry: entry[0],
    )
    time_ns, name, groups = ranked[0]
    if time_ns == inf:
        raise PlacementError("no plan has a finite modelled time and steps that all have inputs and outputs")
    return Partitioning(given.plan(groups), _report(given, groups, name, found))


class _Prices:
    """The modelled times of plans for one problem. Alternatives may be the same plan, which is priced once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known: dict[tuple[Group, ...], PlanCost] = {}

    def cost(self, groups: Sequence[Group]) -> PlanCost:
        """Return the modelled time of a plan, by step and edge."""
        key = tuple(groups)
        if key not in self._known:
            self._known[key] = cost_of(self.problem, key)
        return self._known[key]

    def feasible_ns(self, groups: Sequence[Group]) -> float:
        """Return the modelled time of a plan; infinite if it has a step without inputs or outputs."""
        total_ns = self.cost(groups).total_ns
        connected = total_ns < inf and (len(groups) == 1 or all_connected(self.problem, groups))
        return total_ns if connected else inf


def _merged(
    problem: Problem, known: Mapping[str, Sequence[Group]], options: Options
) -> Iterator[tuple[str, Sequence[Group]]]:
    for name, groups in known.items():
        yield name, merge_small(problem, groups, options.min_nodes_per_partition, options.cpu)


def _costed(candidate: Candidate, operations: int) -> Candidate:
    """Return the device, with operations refused that it gives no modelled time for."""
    unknown = [number for number in range(operations) if modelled_ns(candidate, number) == inf]
    return candidate.refusing(dict.fromkeys(unknown, "supported, but it gives no modelled time"))


def _problem(task: Task, candidates: Sequence[Candidate], allowed: Sequence[Sequence[Candidate]]) -> Problem:
    return problem_of(task.model, candidates, allowed, task.dimensions, task.edge_ns, task.element_sizes, task.left_ns)


def _unpinned(task: Task, candidates: Sequence[Candidate]) -> Problem:
    allowed = [[c for c in candidates if number not in c.refusals] for number in range(len(task.names))]
    return _problem(task, candidates, allowed)


def _whole(problem: Problem, device: str) -> Sequence[Group]:
    return [(problem.devices.index(device), tuple(range(len(problem.reads))))]


def _devices(problem: Problem, groups: Sequence[Group]) -> list[int]:
    devices = {number: device for device, operations in groups for number in operations}
    return [devices[number] for number in range(len(problem.reads))]


def _report(given: _Given, groups: Sequence[Group], chosen: str, found: SearchResult) -> PlanReport | None:
    cost = given.prices.cost(groups)
    if cost.total_ns == inf:
        return None
    free = given.prices if not given.options.pins else _Prices(_unpinned(given.task, given.asked))
    costs = {name: free.cost(_whole(free.problem, name)) for name in free.problem.devices}
    alone = {name: cost for name, cost in costs.items() if cost.total_ns < inf}
    nnapi_ns = given.prices.feasible_ns(given.by_rule)
    return PlanReport(
        chosen,
        cost,
        {name: cost.total_ns for name, cost in alone.items()},
        {name: cost.total_ns - sum(step.compute_ns for step in cost.steps) for name, cost in alone.items()},
        nnapi_ns if nnapi_ns < inf else None,
        min(found.lower_bound_ns, cost.total_ns),
        found.evaluated,
    )
