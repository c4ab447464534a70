"""Writing a schedule down as commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_devices.ethos_u.cascader.geometry.box import Interval
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn
from nnhal_devices.ethos_u.cascader.schedule.schedule import Schedule
from nnhal_devices.ethos_u.cascader.schedule.stripe_run import StripeRun
from nnhal_devices.ethos_u.cascader.schedule.walk import walk
from nnhal_devices.ethos_u.cascader.stream.commands import (
    AllocateConstants,
    AllocateTensor,
    BeginPlan,
    Command,
    CommandStream,
    CopyConstants,
    LoadInput,
    PartSymbol,
    ReleaseConstants,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
    TensorSymbol,
)
from nnhal_devices.ethos_u.cascader.stream.digest import graph_digest


def emit(schedule: Schedule) -> CommandStream:
    """Return the commands of a schedule."""
    graph, system = schedule.graph, schedule.system
    arenas = [(system.working.name, schedule.peak)]
    if system.spill is not None and schedule.spill_peak:
        arenas.append((system.spill.name, schedule.spill_peak))
    return CommandStream(
        tuple(
            command for number, plan in enumerate(schedule.proposal.plans) for command in _plan(schedule, number, plan)
        ),
        graph_digest(graph),
        tuple(arenas),
        tuple(TensorSymbol(tensor.name, tensor.shape, tensor.element_bytes) for tensor in graph.tensors),
        tuple(
            PartSymbol(
                part.name,
                part.output,
                tuple(each.tensor for each in part.inputs),
                part.constants.bytes_of(Interval(0, 1)) if part.constants else 0,
            )
            for part in graph.parts
        ),
    )


def _plan(schedule: Schedule, number: int, plan: Plan) -> Iterator[Command]:
    graph = schedule.graph
    yield BeginPlan(number)
    for buffer in schedule.tensors:
        if buffer.first == number:
            yield AllocateTensor(buffer.tensor, buffer.region, buffer.address, buffer.extents)
            if graph.tensors[buffer.tensor].is_input:
                yield LoadInput(buffer.tensor)
    copied = [each for each in schedule.constants if each.plan == number]
    for each in copied:
        yield AllocateConstants(each.part, each.region, each.address, each.bytes, each.slots)
    weights = dict(zip(plan.parts, plan.weights, strict=True))
    for part, place in weights.items():
        if place == WeightsIn.RESIDENT:
            channels = graph.tensors[graph.parts[part].output].shape.channels
            yield CopyConstants(part, Interval(0, channels), 0)
    yield from _stripes(list(walk(graph, plan, schedule.reversed[number])), weights)
    for each in copied:
        yield ReleaseConstants(each.part)
    for buffer in schedule.tensors:
        if buffer.last == number:
            if graph.tensors[buffer.tensor].is_output:
                yield StoreOutput(buffer.tensor)
            yield ReleaseTensor(buffer.tensor)


def _stripes(runs: Sequence[StripeRun], weights: dict[int, WeightsIn]) -> Iterator[Command]:
    """Run stripes; before each that is double buffered, start to copy what the next one needs to the other slot."""
    slot, held = 0, None
    for index, run in enumerate(runs):
        place = weights[run.part]
        if place == WeightsIn.DOUBLE_BUFFERED:
            channels = run.output.channels
            if held is None:
                yield CopyConstants(run.part, channels, slot)
            elif held != channels:
                slot = 1 - slot
            held = channels
            following = runs[index + 1].output.channels if index + 1 < len(runs) else channels
            if following != channels:
                yield CopyConstants(run.part, following, 1 - slot)
        yield RunStripe(run.part, run.output, run.inputs, place, slot if place == WeightsIn.DOUBLE_BUFFERED else 0)
        for death in run.deaths:
            yield Roll(death.tensor, death.axis, Interval(death.from_, death.to))
