"""A plan before any device prepares its steps: where everything runs, how values pass, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.extensions import size_in_bytes
from nnhal.memory import validate_pool
from nnhal.tensors import ClientMemory
from nnhal.types import Model, Subgraph
from nnhal.types.layout import Dimensions
from nnhal_frontends.imported import ImportedModel
from nnhal_service.fallback import FallbackLayout, PassedValues, Side, client_memory, lay_out, values_of
from nnhal_service.partition import (
    Candidate,
    Failures,
    Options,
    Partitioning,
    Pin,
    Plan,
    Refined,
    Step,
    Strategy,
    Task,
    carry,
    partition,
    refine,
)
from nnhal_service.runtime.plan.survey import Survey


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """Order of a plan's images: with channels last, which some devices want, or first, as the model has them."""

    is_converted: bool
    """True if they are last."""
    wanting: tuple[str, ...]
    """The devices that want it."""
    other_ns: float | None
    """The modelled time of the plan with the other layout; None if there is no such plan, or no modelled time."""
    other_reason: str
    """Why there is no such plan; empty if there is one."""


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The demands on a plan, by which it was chosen."""

    pins: tuple[Pin, ...]
    """Those that the plan keeps."""
    left_out: frozenset[str]
    """Devices that were not to be used."""
    images: ImageLayout | None = None
    """Why its images are in this layout; None if no device wants another than the model's."""


@dataclass(frozen=True, slots=True, eq=False)
class SketchedPlan:
    """A plan, and what follows from it."""

    survey: Survey
    """The model, and what the devices answered about it."""
    refined: Refined
    """The partitioning, after devices have optimised their steps."""
    values: PassedValues
    """The values that pass between steps, and to and from the client."""
    layout: FallbackLayout
    """The arenas for those values that belong to the framework, have a known size and are not kept by a device."""
    choice: PlanChoice

    @property
    def imported(self) -> ImportedModel:
        return self.survey.imported

    @property
    def sides(self) -> Mapping[str, Side]:
        """Each device as one end of an edge."""
        return self.survey.sides

    @property
    def client_memory(self) -> ClientMemory:
        """The memory of the model's inputs and outputs of which devices copy the least."""
        return client_memory((v.edges[0] for v in self.values.values() if not v.is_ours), self.sides.values())

    @property
    def dimensions(self) -> Sequence[Dimensions]:
        """Of the operands of main; 0 for an unknown extent."""
        return self.survey.task.dimensions

    @property
    def element_sizes(self) -> Mapping[int, int]:
        """Bytes of an element, by extension operand type."""
        return self.survey.task.element_sizes

    @property
    def modelled_ns(self) -> float | None:
        """The modelled time of a run; None if a device has no cost model."""
        report = self.refined.partitioning.report
        return None if report is None else report.cost.total_ns

    @property
    def plan(self) -> Plan:
        return self.refined.partitioning.plan

    @property
    def devices(self) -> frozenset[str]:
        """The devices of the steps."""
        return frozenset(step.device for step in self.plan.steps)

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

    @property
    def constant_bytes(self) -> int:
        model = self.imported.model
        return len(model.operand_values) + sum(validate_pool(pool, "constants") for pool in model.pools)

    def optimised(self, step: Step) -> tuple[str, ...]:
        """Return a device's optimisations of a step, in its words; nothing if it has no backend, or has died."""
        if step.source is not None:
            return ("as the file has it",)
        return self.survey.optimisations.substitutions(step)

    def working_bytes(self, step: Step) -> int:
        """Bytes of its device's working memory that a step takes; 0 if the device does not say."""
        if step.source is not None:
            return 0
        return sum(each.working_bytes for each in self.survey.optimisations.views(step).substitutions)


def sketched(survey: Survey, options: Options, left_out: Mapping[str, str]) -> SketchedPlan:
    """Plan without the devices that are ``left_out``, which have reasons. No device prepares anything.

    Raises PlacementError if an operation has no device, or a pin cannot be kept.
    """
    task = survey.task
    refined = refine(
        [_without(candidate, left_out, task.model) for candidate in survey.candidates],
        lambda candidates: _partition(task, candidates, options),
        lambda step: _failed(survey, step),
    )
    carrying = [name for name, side in survey.sides.items() if side.relaxed_as_float16]
    plan = survey.source_steps.plan(carry(task.model, refined.partitioning.plan, carrying))
    partitioning = replace(refined.partitioning, plan=plan)
    choice = PlanChoice(options.pins, frozenset(left_out))
    return sketch_of(survey, replace(refined, partitioning=partitioning), choice, options.memory_kind)


def sketch_of(survey: Survey, refined: Refined, choice: PlanChoice, memory_kind: str = "") -> SketchedPlan:
    """A partitioning with the values that pass by it; ``memory_kind`` is the client's, as ``values_of`` has it."""
    plan, task = refined.partitioning.plan, survey.task
    values = passed_values(task.model, plan, survey.sides, task.dimensions, task.element_sizes, memory_kind)
    return SketchedPlan(survey, refined, values, arena_of(plan, values), choice)


def passed_values(
    model: Model,
    plan: Plan,
    sides: Mapping[str, Side],
    dimensions: Sequence[Dimensions],
    element_sizes: Mapping[int, int],
    memory_kind: str = "",
) -> PassedValues:
    """The values of a plan; their size is 0 if the ``dimensions`` of main's operands do not determine it.

    In a compound plan, those that pass between steps of main, and between these and the client; no device keeps them,
    since control flow may hand them on.
    """
    graph, carried = model.main, plan.carried
    if plan.walk is not None:
        sides = {name: replace(side, keeps=False) for name, side in sides.items()}

    def size_of(operand: int) -> int:
        return size_in_bytes(carried.get(operand, graph.operands[operand].type), dimensions[operand], element_sizes)

    steps = [step if step.scope == 0 else replace(step, inputs=(), outputs=()) for step in plan.steps]
    ends = frozenset(graph.input_indexes), frozenset(graph.output_indexes)
    return values_of(steps, sides, *ends, size_of, carried, memory_kind)


def arena_of(plan: Plan, values: PassedValues) -> FallbackLayout:
    """The layout of the values that belong to the framework, have a known size and are not kept by a device.

    It is empty for a compound plan: a loop may run a step more than once, so that no value has a last reader.
    """
    ours = [value for value in values.values() if value.is_ours and value.size and not value.is_kept]
    return lay_out(ours if plan.walk is None else [])


def _failed(survey: Survey, step: Step) -> Failures:
    """Return what a step's device cannot do in this step. A step in the words of the file has no operations to
    optimise.
    """
    if survey.source_steps.of(step).source is not None:
        return ()
    return (*survey.source_steps.failed(step), *survey.optimisations.failed(step))


def _without(candidate: Candidate, left_out: Mapping[str, str], model: Model) -> Candidate:
    if candidate.name not in left_out:
        return candidate
    for number, graph in enumerate((model.main, *model.referenced)):
        candidate = candidate.refusing(dict.fromkeys(range(len(graph.operations)), left_out[candidate.name]), number)
    return candidate


def _partition(task: Task, candidates: Sequence[Candidate], options: Options) -> Partitioning:
    """Partition by least modelled time; by NNAPI's rule if a device has no cost model."""
    if options.strategy == Strategy.LEAST_TIME and not all(candidate.operation_ns for candidate in candidates):
        options = replace(options, strategy=Strategy.NNAPI)
    return partition(task, candidates, options)
