"""The order of copies and stripes."""

from __future__ import annotations

from dataclasses import replace

from nnhal_cascade.geometry.box import Axis, Interval
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import Plan, WeightsIn
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.steps import ConstantsCopy, PlanStart, StripeStep, steps
from tests.support.schedules import cascade, schedule_of
from tests.support.small_networks import two_convs

GRAPH = build_graph(two_convs())
FIRST = cascade(GRAPH, [0], 10, weights=WeightsIn.RESIDENT)
SECOND = cascade(GRAPH, [1], 8, weights=WeightsIn.RESIDENT)


def scheduled(*plans: Plan) -> Schedule:
    return schedule_of(GRAPH, system_for("u55-128"), plans)


def told(schedule: Schedule) -> list[str]:
    """Return the steps, each as a word with its plan or part."""
    found = []
    for step in steps(schedule):
        if isinstance(step, PlanStart):
            found.append(f"plan {step.plan}")
        elif isinstance(step, ConstantsCopy):
            found.append(f"copy {step.part} {step.channels.start}:{step.channels.stop} to {step.slot}")
        else:
            found.append(f"run {step.part}")
    return found


def test_a_plan_copies_its_constants_and_runs() -> None:
    assert told(scheduled(FIRST, SECOND)) == [
        *("plan 0", "copy 0 0:8 to 0", "run 0"),
        *("plan 1", "copy 1 0:4 to 0", "run 1"),
    ]


def test_constants_of_the_next_plan_are_copied_beside_this_one_if_their_buffer_is_free() -> None:
    schedule = scheduled(FIRST, SECOND)
    early = tuple(replace(each, copied_in=0) for each in schedule.constants)
    assert told(replace(schedule, constants=early)) == [
        *("plan 0", "copy 0 0:8 to 0", "copy 1 0:4 to 0", "run 0"),
        *("plan 1", "run 1"),
    ]


def test_each_stripe_of_channels_copies_the_constants_of_the_next_into_the_other_slot() -> None:
    plan = cascade(GRAPH, [0], 3, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED)
    assert told(scheduled(plan, cascade(GRAPH, [1], 8)))[:7] == [
        *("plan 0", "copy 0 0:3 to 0"),
        *("copy 0 3:6 to 1", "run 0", "copy 0 6:8 to 0", "run 0", "run 0"),
    ]


def test_backwards_the_constants_of_the_last_channels_are_copied_first() -> None:
    plans = [cascade(GRAPH, [0], 3, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED), cascade(GRAPH, [1], 8)]
    assert told(schedule_of(GRAPH, system_for("u55-128"), plans, [True, False]))[:7] == [
        *("plan 0", "copy 0 6:8 to 0"),
        *("copy 0 3:6 to 1", "run 0", "copy 0 0:3 to 0", "run 0", "run 0"),
    ]


def test_streamed_constants_are_not_copied() -> None:
    assert told(scheduled(cascade(GRAPH, [0, 1], 20))) == ["plan 0", "run 0", "run 1"]


def test_a_plan_backwards_runs_its_stripes_from_the_end() -> None:
    plans = [cascade(GRAPH, [0], 5), cascade(GRAPH, [1], 8)]
    schedule = schedule_of(GRAPH, system_for("u55-128"), plans, [True, False])
    rows = [step.run.output.rows for step in steps(schedule) if isinstance(step, StripeStep)]
    assert rows == [Interval(5, 10), Interval(0, 5), Interval(0, 8)]
