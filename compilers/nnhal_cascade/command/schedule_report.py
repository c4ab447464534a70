"""From schedules to their report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nnhal_cascade.command.report import (
    BoundReport,
    BufferReport,
    CascadePlanReport,
    CascadeReport,
    FrontierPoint,
    LeastReport,
    PartReport,
    RunFigures,
    SystemReport,
)
from nnhal_cascade.compiler import Frontier
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.graph.bounds import memory_bound
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part, PartKind, tensor_names
from nnhal_cascade.graph.feeds import place_of_inputs
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.plans.plan import Plan
from nnhal_cascade.schedule.replay import PlanReplay
from nnhal_cascade.schedule.schedule import ConstantsBuffer, Schedule, TensorBuffer


def schedule_report(
    model: str,
    budget: int,
    schedule: Schedule,
    replays: Sequence[PlanReplay],
    frontier: Frontier | None = None,
    measured: RunFigures | None = None,
    recompute: bool = False,
) -> CascadeReport:
    """Return the report of a schedule.

    Args:
        model: The name of the model's file.
        budget: Bytes of the working memory.
        schedule: The schedule.
        replays: Its plans as they run.
        frontier: The best schedules; None if they were not asked for.
        measured: What the device measured, if it ran.
        recompute: Whether values might be computed twice.
    """
    points = frontier.points if frontier else ()
    buffers = _buffers(schedule)
    planned = figures(
        schedule.system,
        schedule.peak,
        schedule.cycles,
        sum(each.macs for each in replays),
        sum((each.read for each in replays), Counter()),
        sum((each.written for each in replays), Counter()),
    )
    return CascadeReport(
        model,
        system_report(schedule.system),
        True,
        budget,
        planned,
        measured,
        _spilled(schedule),
        tuple(_plan(schedule, number, each, buffers) for number, each in enumerate(replays)),
        buffers,
        _frontier(points, schedule),
        bound_report(schedule, schedule.peak, any(len(plan.tiles) > 1 for plan in schedule.proposal.plans)),
        LeastReport(points[-1].peak, frontier.parts, bound_report(schedule, points[-1].peak, recompute))
        if frontier and points
        else None,
        place_of_inputs(schedule.graph).value,
        _handed_over(schedule.graph, replays),
    )


def bound_report(schedule: Schedule, peak: int, recompute: bool) -> BoundReport | None:
    """Return what no schedule of a schedule's graph can do with less, None if tensors may lie elsewhere.

    ``peak`` is the bytes of the schedule that it is told beside.
    """
    found = memory_bound(schedule.graph, recompute)
    if schedule.system.spill is not None or not found.bytes:
        return None
    return BoundReport(found.bytes, found.why, peak / found.bytes - 1)


def _handed_over(graph: CascaderGraph, replays: Sequence[PlanReplay]) -> int:
    given = [tensor.bytes for tensor in graph.tensors if tensor.is_input]
    for run in (stripe.run for ran in replays for stripe in ran.stripes):
        part = graph.parts[run.part]
        if part.kind is PartKind.FEED:
            given.append(run.output.shape.elements * graph.tensors[part.output].element_bytes)
    return sum(given)


def _spilled(schedule: Schedule) -> dict[str, int]:
    spill = schedule.system.spill
    return {spill.name: schedule.spill_peak} if spill is not None and schedule.spill_peak else {}


def figures(
    system: System, peak: int, cycles: int, macs: int, read: dict[str, int], written: dict[str, int]
) -> RunFigures:
    """Return the cost of a run, with its time at the clock of the system."""
    return RunFigures(peak, cycles, _milliseconds(system, cycles), macs, _sorted(read), _sorted(written))


def _milliseconds(system: System, cycles: int) -> float:
    return cycles / system.clock_hz * 1e3


def _sorted(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amounts[name] for name in sorted(amounts) if amounts[name]}


def system_report(system: System) -> SystemReport:
    """Return what a report says of an accelerator with its memories."""
    regions = tuple(region.as_table() for region in system.regions)
    return SystemReport(system.name, system.accelerator.name, system.clock_hz, system.working.name, regions)


def _plan(schedule: Schedule, number: int, ran: PlanReplay, buffers: Sequence[BufferReport]) -> CascadePlanReport:
    plan, working = schedule.proposal.plans[number], schedule.system.working.name
    largest = max((tile.shape for tile in plan.tiles), key=lambda shape: shape.elements)
    alive = (each for each in buffers if each.region == working and each.first <= number <= each.last)
    return CascadePlanReport(
        number,
        tuple(_part(schedule, plan, position, ran) for position in range(len(plan.parts))),
        plan.along.name.lower(),
        len(plan.tiles),
        tuple(largest),
        schedule.reversed[number],
        max((each.address + each.bytes for each in alive), default=0),
        ran.end - ran.start,
        ran.waiting,
        ran.macs,
        _sorted(ran.read),
        _sorted(ran.written),
    )


def _part(schedule: Schedule, plan: Plan, position: int, ran: PlanReplay) -> PartReport:
    graph = schedule.graph
    part, names = graph.parts[plan.parts[position]], tensor_names(graph)
    stripes = [each for each in ran.stripes if each.run.part == part.index]
    output = graph.tensors[part.output]
    return PartReport(
        part.index,
        part.name,
        part.operation,
        tuple(names[each.tensor] for each in part.inputs),
        names[output.index],
        tuple(output.shape),
        plan.stripes[position],
        len(stripes),
        plan.weights[position].value,
        _weight_bytes(schedule, part),
        sum(each.end - each.start for each in stripes),
        sum(each.macs for each in stripes),
    )


def _weight_bytes(schedule: Schedule, part: Part) -> int:
    channels = schedule.graph.tensors[part.output].shape.channels
    return part.constants.bytes_of(Interval(0, channels)) if part.constants else 0


def _buffers(schedule: Schedule) -> tuple[BufferReport, ...]:
    found = [_tensor_buffer(schedule, each) for each in schedule.tensors]
    found += [_constants_buffer(schedule, each) for each in schedule.constants]
    return tuple(sorted(found, key=lambda each: (each.region, each.first, each.address)))


def _tensor_buffer(schedule: Schedule, buffer: TensorBuffer) -> BufferReport:
    tensor = schedule.graph.tensors[buffer.tensor]
    kind = "whole" if buffer.extents == tensor.shape else "rolling"
    return BufferReport(
        tensor_names(schedule.graph)[tensor.index],
        kind,
        buffer.region,
        buffer.address,
        buffer.bytes,
        tuple(buffer.extents),
        tuple(tensor.shape),
        buffer.first,
        buffer.last,
    )


def _constants_buffer(schedule: Schedule, buffer: ConstantsBuffer) -> BufferReport:
    return BufferReport(
        schedule.graph.parts[buffer.part].name,
        "weights",
        buffer.region,
        buffer.address,
        buffer.bytes * buffer.slots,
        (buffer.slots, buffer.bytes),
        (),
        buffer.copied_in,
        buffer.plan,
    )


def _frontier(schedules: Sequence[Schedule], chosen: Schedule) -> tuple[FrontierPoint, ...]:
    fastest = min((each.cycles for each in schedules), default=0)
    knee = min(schedules, key=lambda each: each.peak * each.cycles, default=None)
    return tuple(
        FrontierPoint(
            each.peak,
            each.cycles,
            _milliseconds(each.system, each.cycles),
            each.cycles / fastest - 1 if fastest else 0.0,
            tuple((plan.parts[0], plan.parts[-1]) for plan in each.proposal.plans if len(plan.parts) > 1),
            max((len(plan.tiles) for plan in each.proposal.plans if len(plan.parts) > 1), default=1),
            (each.peak, each.cycles) == (chosen.peak, chosen.cycles),
            each is knee,
        )
        for each in schedules
    )
