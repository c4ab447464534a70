"""Errors of a stream are said: which command, which tensor, what was expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from nnhal.resolved import ResolvedModel
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.errors import MachineError, OverwrittenError, StreamError
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.plans.plan import Plan, WeightsIn
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.commands import (
    AllocateConstants,
    AllocateTensor,
    Command,
    CommandStream,
    CopyConstants,
    LoadInput,
    Roll,
    RunStripe,
    StoreOutput,
)
from nnhal_cascade.stream.emit import emit
from tests.support.agreement import inputs_of
from tests.support.schedules import cascade, one_by_one, schedule_of
from tests.support.small_networks import residual, two_convs

SYSTEM = system_for("u55-128")
SRAM = SYSTEM.working.name
FLASH = SYSTEM.constants.name


def execute(model: ResolvedModel, graph: CascaderGraph, stream: CommandStream, checked: bool = True) -> None:
    Machine(stream, graph, model, SYSTEM, checked).run(inputs_of(model))


def all_at_once(graph: CascaderGraph, stripe: int, weights: WeightsIn = WeightsIn.STREAMED) -> list[Plan]:
    return [cascade(graph, range(len(graph.parts)), stripe, weights=weights)]


def planted(schedule: Schedule, tensor: int, address: int) -> Schedule:
    buffers = [replace(each, address=address) if each.tensor == tensor else each for each in schedule.tensors]
    return replace(schedule, tensors=tuple(buffers))


def test_reading_what_was_overwritten_is_an_error() -> None:
    model = two_convs()
    graph = build_graph(model)
    schedule = planted(schedule_of(graph, SYSTEM, all_at_once(graph, 1)), 2, 8 * 96)
    with pytest.raises(OverwrittenError) as caught:
        execute(model, graph, emit(schedule))
    assert str(caught.value) == (
        "conv_1 (CONV_2D) reads sram[0x300]: image[row 8, column 0, channel 0] was overwritten by "
        "conv_2[row 0, column 0, channel 0]"
    )


def test_reading_what_the_stream_has_rolled_past_is_an_error() -> None:
    model = two_convs()
    graph = build_graph(model)
    stream = emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1)))
    commands = list(stream.commands)
    first = next(index for index, command in enumerate(commands) if isinstance(command, RunStripe))
    commands.insert(first, Roll(0, Axis.ROWS, Interval(1, 2)))
    with pytest.raises(OverwrittenError, match=r"image\[row 1, column 0, channel 0\] is dead"):
        execute(model, graph, replace(stream, commands=tuple(commands)))


def test_reading_what_was_never_written_is_an_error() -> None:
    model = two_convs()
    graph = build_graph(model)
    stream = emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1)))
    commands = [command for command in stream.commands if not isinstance(command, LoadInput)]
    with pytest.raises(OverwrittenError, match=r"image\[row 0, column 0, channel 0\] was never written"):
        execute(model, graph, replace(stream, commands=tuple(commands)))


LOST = r"constants of conv_1 \(CONV_2D\)\[channel 7, byte 50\] was overwritten by conv_2\[row 0, column 0, channel 0\]"


@pytest.mark.parametrize(("checked", "fault"), [(True, LOST), (False, "were overwritten")])
def test_constants_that_were_overwritten_are_found_in_both_modes(checked: bool, fault: str) -> None:
    model = two_convs()
    graph = build_graph(model)
    schedule = schedule_of(graph, SYSTEM, all_at_once(graph, 1, WeightsIn.RESIDENT))
    held = schedule.constants[1]
    overlapping = planted(schedule, 2, held.address - 32)
    with pytest.raises(OverwrittenError, match=fault):
        execute(model, graph, emit(overlapping), checked)


def rewritten(change: Callable[[Command], Sequence[Command]]) -> None:
    """Run the small network with some commands replaced."""
    model = two_convs()
    graph = build_graph(model)
    stream = emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1, WeightsIn.RESIDENT)))
    commands = tuple(new for command in stream.commands for new in change(command))
    execute(model, graph, replace(stream, commands=commands))


def without(kind: type[Command]) -> Callable[[Command], Sequence[Command]]:
    return lambda command: [] if isinstance(command, kind) else [command]


TOO_FEW = Box(Interval(0, 2), Interval(0, 12), Interval(0, 8))
OUTSIDE = Box(Interval(0, 3), Interval(0, 13), Interval(0, 8))
LONG = Box(Interval(0, 4), Interval(0, 10), Interval(0, 8))
NOTHING = Box(Interval(3, 3), Interval(0, 10), Interval(0, 8))
ENOUGH = Box(Interval(0, 6), Interval(0, 12), Interval(0, 8))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without(AllocateTensor), "command 1 (LoadInput): image has no buffer"),
        (without(AllocateConstants), "command 5 (CopyConstants): the constants of conv_1 (CONV_2D) have no buffer"),
        (
            without(CopyConstants),
            "command 7 (RunStripe): conv_1 (CONV_2D) needs channels 0..7 of constants of conv_1 (CONV_2D) in slot "
            "0, which holds nothing",
        ),
        (without(StoreOutput), "the stream does not store conv_2, which is an output of the model"),
        (
            lambda c: [c._replace(inputs=(TOO_FEW,))] if isinstance(c, RunStripe) and c.part == 0 else [c],
            "command 9 (RunStripe): a stripe of conv_1 (CONV_2D) needs rows 0..2, columns 0..11 and channels 0..7 of "
            "its input 0, it is given rows 0..1, columns 0..11 and channels 0..7",
        ),
        (
            lambda c: [c._replace(inputs=(OUTSIDE,))] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): conv_1 (CONV_2D) uses image[rows 0..2, columns 0..12, channels 0..7], of 12 x "
            "12 x 8 elements",
        ),
        (
            lambda c: [c._replace(output=LONG, inputs=(ENOUGH,))] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): conv_1 (CONV_2D) uses conv_1[rows 0..3, columns 0..9, channels 0..7], in a "
            "buffer of 3 x 10 x 8 elements",
        ),
        (
            lambda c: [c._replace(output=NOTHING)] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): conv_1 (CONV_2D) makes no element of conv_1, expected at least one",
        ),
        (
            lambda c: [c._replace(inputs=())] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): a stripe of conv_1 (CONV_2D) with 0 inputs, expected 1",
        ),
        (
            lambda c: [c._replace(weights=WeightsIn.NONE)] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): a stripe of conv_1 (CONV_2D) with weights 'none'",
        ),
        (
            lambda c: [c._replace(part=7)] if isinstance(c, RunStripe) else [c],
            "command 9 (RunStripe): part 7, the graph has 2",
        ),
        (
            lambda c: [c._replace(address=1 << 20)] if isinstance(c, AllocateTensor) else [c],
            "command 1 (AllocateTensor): image at 0x100000 takes 1152 bytes of sram, the stream has 2632 of them",
        ),
        (
            lambda c: [c._replace(region="tcm")] if isinstance(c, AllocateTensor) else [c],
            "command 1 (AllocateTensor): the region tcm, of which the stream uses nothing",
        ),
        (
            lambda c: [c, c] if isinstance(c, AllocateTensor) else [c],
            "command 2 (AllocateTensor): image has a buffer already",
        ),
        (
            lambda c: [c._replace(extents=Shape(13, 12, 8))] if isinstance(c, AllocateTensor) else [c],
            "command 1 (AllocateTensor): image of 12 x 12 x 8 has a buffer of 13 x 12 x 8",
        ),
        (
            lambda c: [c._replace(slots=3)] if isinstance(c, AllocateConstants) else [c],
            "command 5 (AllocateConstants): constants of conv_1 (CONV_2D) have 3 slots, expected 1 or 2",
        ),
        (
            lambda c: [c._replace(bytes=600)] if isinstance(c, AllocateConstants) and c.part == 0 else [c],
            "command 7 (CopyConstants): a copy of 656 bytes to constants of conv_1 (CONV_2D), whose slots have 600",
        ),
        (
            lambda c: [c._replace(slot=1)] if isinstance(c, CopyConstants) else [c],
            "command 7 (CopyConstants): slot 1 of constants of conv_1 (CONV_2D), which have 1",
        ),
        (
            lambda c: [c._replace(tensor=1)] if isinstance(c, LoadInput) else [c],
            "command 2 (LoadInput): a load of conv_1, which is no input that the run is given",
        ),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(change: Callable[[Command], Sequence[Command]], sentence: str) -> None:
    with pytest.raises(StreamError) as caught:
        rewritten(change)
    assert str(caught.value) == sentence


def test_a_stream_for_another_graph_is_refused() -> None:
    model, other = two_convs(), residual()
    graph = build_graph(model)
    stream = emit(schedule_of(graph, SYSTEM, one_by_one(graph)))
    with pytest.raises(StreamError, match="the stream is for the graph"):
        Machine(stream, build_graph(other), other, SYSTEM)


@pytest.mark.parametrize(
    ("arenas", "sentence"),
    [
        (
            (("tcm", 9),),
            f"the stream uses the region tcm, {SYSTEM.name} has {', '.join(r.name for r in SYSTEM.regions)}",
        ),
        (((SRAM, 1 << 40),), f"the stream uses {1 << 40} bytes of {SRAM}, which has {SYSTEM.working.size}"),
    ],
)
def test_a_stream_for_a_larger_system_is_refused(arenas: tuple[tuple[str, int], ...], sentence: str) -> None:
    model = two_convs()
    graph = build_graph(model)
    stream = emit(schedule_of(graph, SYSTEM, one_by_one(graph)))
    with pytest.raises(MachineError) as caught:
        Machine(replace(stream, arenas=arenas), graph, model, SYSTEM)
    assert str(caught.value) == sentence
