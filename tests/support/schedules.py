"""Schedules by hand: plans of our own, and buffers one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.plans.plan import Plan, Proposal, WeightsIn
from nnhal_cascade.schedule.schedule import ConstantsBuffer, Schedule, TensorBuffer
from nnhal_cascade.schedule.walk import walk


def cascade(
    graph: CascaderGraph,
    parts: Sequence[int],
    stripe: int,
    along: Axis = Axis.ROWS,
    weights: WeightsIn = WeightsIn.STREAMED,
    tiles: Sequence[Box] = (),
) -> Plan:
    """Return a plan in which all parts have stripes of one extent."""
    last = graph.tensors[graph.parts[parts[-1]].output].shape
    places = [weights if graph.parts[part].constants else WeightsIn.NONE for part in parts]
    return Plan(tuple(parts), (stripe,) * len(parts), tuple(places), tuple(tiles) or (whole(last),), along)


def one_by_one(graph: CascaderGraph) -> list[Plan]:
    """Return a plan for each part, which runs as a whole."""
    return [cascade(graph, [part.index], 1 << 20) for part in graph.parts]


def schedule_of(
    graph: CascaderGraph, system: System, plans: Sequence[Plan], backwards: Sequence[bool] | None = None
) -> Schedule:
    """Return a schedule with buffers that are as short as the plans allow, and share no address."""
    directions = tuple(backwards or [False] * len(plans))
    number_of = {part: number for number, plan in enumerate(plans) for part in plan.parts}
    extents = {
        tensor: extent
        for number, plan in enumerate(plans)
        for tensor, extent in _extents(graph, plan, directions[number]).items()
    }
    buffers, constants, address = [], [], 0
    for tensor in graph.tensors:
        producer = graph.producers[tensor.index]
        first = 0 if producer is None else number_of[producer]
        last = max([first, *(number_of[reader] for reader in graph.consumers[tensor.index])])
        if tensor.is_output:
            last = len(plans) - 1
        interior = producer is not None and first == last and not tensor.is_output
        extent = extents[tensor.index] if interior else tensor.shape
        buffer = TensorBuffer(tensor.index, system.working.name, address, extent, tensor.element_bytes, first, last)
        buffers.append(buffer)
        address += buffer.bytes
    for number, plan in enumerate(plans):
        for part, stripe, place in zip(plan.parts, plan.stripes, plan.weights, strict=True):
            held = graph.parts[part].constants
            if held is None or place in (WeightsIn.STREAMED, WeightsIn.NONE):
                continue
            channels = graph.tensors[graph.parts[part].output].shape.channels
            double = place == WeightsIn.DOUBLE_BUFFERED
            size = held.bytes_of(Interval(0, min(stripe, channels) if double else channels))
            slots = 2 if double else 1
            constants.append(ConstantsBuffer(part, system.working.name, address, size, slots, number, number))
            address += slots * size
    return Schedule(
        graph, system, Proposal(tuple(plans), address, 0), directions, tuple(buffers), tuple(constants), address
    )


def _extents(graph: CascaderGraph, plan: Plan, backwards: bool) -> dict[int, Shape]:
    """The most that is alive of each tensor that a plan makes, along its axis."""
    alive: dict[int, Interval] = {}
    most: defaultdict[int, int] = defaultdict(int)
    for run in walk(graph, plan, backwards):
        tensor, made = graph.parts[run.part].output, run.output[plan.along]
        held = alive.get(tensor, made)
        held = Interval(min(held.start, made.start), max(held.stop, made.stop)) if held.length else made
        alive[tensor] = held
        most[tensor] = max(most[tensor], held.length)
        for death in run.deaths:
            if death.tensor in alive and death.axis == plan.along:
                left = alive[death.tensor]
                start = death.to if death.from_ <= left.start < death.to else left.start
                stop = death.from_ if death.from_ < left.stop <= death.to else left.stop
                alive[death.tensor] = Interval(start, stop)
    result = {}
    for tensor, extent in most.items():
        lengths = list(graph.tensors[tensor].shape)
        lengths[plan.along] = min(extent, lengths[plan.along])
        result[tensor] = Shape(*lengths)
    return result
