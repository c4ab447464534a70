"""Writing a schedule down as commands."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.steps import ConstantsCopy, PlanStart, StripeStep, steps
from nnhal_cascade.stream.commands import (
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
    graph_digest,
)


def emit(schedule: Schedule) -> CommandStream:
    graph, system = schedule.graph, schedule.system
    arenas = [(system.working.name, schedule.peak)]
    if system.spill is not None and schedule.spill_peak:
        arenas.append((system.spill.name, schedule.spill_peak))
    return CommandStream(
        tuple(_commands(schedule)),
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


def _commands(schedule: Schedule) -> Iterator[Command]:
    """The commands: buffers are allocated as plans start, and released as they end."""
    for step in steps(schedule):
        match step:
            case PlanStart(number):
                if number:
                    yield from _released(schedule, number - 1)
                yield BeginPlan(number)
                yield from _allocated(schedule, number)
            case ConstantsCopy():
                yield CopyConstants(step.part, step.channels, step.slot)
            case StripeStep(run, weights, slot):
                yield RunStripe(run.part, run.output, run.inputs, weights, slot)
                for death in run.deaths:
                    yield Roll(death.tensor, death.axis, Interval(death.from_, death.to))
    if schedule.proposal.plans:
        yield from _released(schedule, len(schedule.proposal.plans) - 1)


def _allocated(schedule: Schedule, number: int) -> Iterator[Command]:
    """Return what is allocated as a plan starts; constants of the next plan, too, if they are copied early."""
    for buffer in schedule.tensors:
        if buffer.first == number:
            yield AllocateTensor(buffer.tensor, buffer.region, buffer.address, buffer.extents)
            if schedule.graph.tensors[buffer.tensor].is_input:
                yield LoadInput(buffer.tensor)
    for each in schedule.constants:
        if each.copied_in == number:
            yield AllocateConstants(each.part, each.region, each.address, each.bytes, each.slots)


def _released(schedule: Schedule, number: int) -> Iterator[Command]:
    """Return what is released as a plan ends."""
    for each in schedule.constants:
        if each.plan == number:
            yield ReleaseConstants(each.part)
    for buffer in schedule.tensors:
        if buffer.last == number:
            if schedule.graph.tensors[buffer.tensor].is_output:
                yield StoreOutput(buffer.tensor)
            yield ReleaseTensor(buffer.tensor)
