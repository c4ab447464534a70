from __future__ import annotations

import pytest

from nnhal_cascade.geometry.box import Axis, Interval
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.schedule.walk import walk
from nnhal_cascade.stream.commands import (
    AllocateTensor,
    BeginPlan,
    CopyConstants,
    LoadInput,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
)
from nnhal_cascade.stream.emit import emit
from tests.support.schedules import cascade, one_by_one, schedule_of
from tests.support.small_networks import two_convs

SYSTEM = system_for("u55-128")
GRAPH = build_graph(two_convs())
IMAGE, FIRST, SECOND = (GRAPH.tensor_of[operand] for operand in (0, 7, 14))


def test_tensors_have_buffers_from_their_first_plan_to_their_last() -> None:
    commands = emit(schedule_of(GRAPH, SYSTEM, one_by_one(GRAPH))).commands
    shown = [command for command in commands if not isinstance(command, (RunStripe, Roll))]
    shown = [c._replace(region="", address=0) if isinstance(c, AllocateTensor) else c for c in shown]
    shapes = [tensor.shape for tensor in GRAPH.tensors]
    assert shown == [
        BeginPlan(0),
        AllocateTensor(IMAGE, "", 0, shapes[IMAGE]),
        LoadInput(IMAGE),
        AllocateTensor(FIRST, "", 0, shapes[FIRST]),
        ReleaseTensor(IMAGE),
        BeginPlan(1),
        AllocateTensor(SECOND, "", 0, shapes[SECOND]),
        ReleaseTensor(FIRST),
        StoreOutput(SECOND),
        ReleaseTensor(SECOND),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_stripes_run_in_the_order_of_the_plan_and_what_dies_is_rolled_past(backwards: bool) -> None:
    plan = cascade(GRAPH, [0, 1], 2)
    commands = emit(schedule_of(GRAPH, SYSTEM, [plan], [backwards])).commands
    runs = list(walk(GRAPH, plan, backwards))
    stripes = [command for command in commands if isinstance(command, RunStripe)]
    assert [(each.part, each.output, each.inputs) for each in stripes] == [(r.part, r.output, r.inputs) for r in runs]
    rolls = [command for command in commands if isinstance(command, Roll)]
    assert [(each.tensor, each.axis, *each.dead) for each in rolls] == [death for run in runs for death in run.deaths]


def test_resident_constants_are_copied_before_the_first_stripe() -> None:
    commands = emit(schedule_of(GRAPH, SYSTEM, [cascade(GRAPH, [0, 1], 1, weights=WeightsIn.RESIDENT)])).commands
    chosen = [command for command in commands if isinstance(command, (CopyConstants, RunStripe))]
    assert chosen[:2] == [CopyConstants(0, Interval(0, 8), 0), CopyConstants(1, Interval(0, 4), 0)]
    assert all(isinstance(each, RunStripe) and each.weights == WeightsIn.RESIDENT for each in chosen[2:])


def test_the_next_constants_are_copied_to_the_other_slot_before_a_stripe_runs() -> None:
    plan = cascade(GRAPH, [0], 3, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED)
    commands = emit(schedule_of(GRAPH, SYSTEM, [plan, cascade(GRAPH, [1], 99)])).commands
    chosen = [
        command if isinstance(command, CopyConstants) else (command.output.channels, command.slot)
        for command in commands
        if isinstance(command, CopyConstants) or (isinstance(command, RunStripe) and command.part == 0)
    ]
    assert chosen == [
        CopyConstants(0, Interval(0, 3), 0),
        CopyConstants(0, Interval(3, 6), 1),
        (Interval(0, 3), 0),
        CopyConstants(0, Interval(6, 8), 0),
        (Interval(3, 6), 1),
        (Interval(6, 8), 0),
    ]
