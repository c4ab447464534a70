"""From schedules to what is told of them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from nnhal_cascade.command.schedule_report import schedule_report
from nnhal_cascade.compiler import Frontier
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.schedule.replay import replay
from tests.support.cascades import PEAK, SIDE, schedule, story


def test_the_plan_is_told_with_its_parts() -> None:
    first, second = story().plans
    assert [part.name for part in first.parts] == ["a (CONV_2D)", "b (DEPTHWISE_CONV_2D)", "c (ADD)"]
    assert [part.runs for part in first.parts] == [SIDE] * 3
    assert [part.weights for part in first.parts] == ["resident", "streamed", "none"]
    assert [part.weight_bytes for part in first.parts] == [8 * 46, 8 * 19, 0]
    assert first.parts[2].inputs == ("b", "a")
    assert (second.along, second.parts[0].stripe, second.parts[0].runs) == ("channels", 8, 2)


def test_the_figures_of_plans_add_up_to_those_of_the_run() -> None:
    told = story()
    assert sum(plan.cycles for plan in told.plans) == told.planned.cycles == schedule().cycles
    assert sum(plan.macs for plan in told.plans) == told.planned.macs
    assert sum(plan.read["flash"] for plan in told.plans) == told.planned.read["flash"]
    assert told.planned.milliseconds == told.planned.cycles / 500_000


def test_the_peak_is_in_the_plan_with_the_highest_buffer() -> None:
    told = story()
    assert (told.planned.peak, told.peak_plan.plan, told.peak_plan.memory) == (PEAK, 1, PEAK)
    assert told.plans[0].memory == 2048 + 8 * 46


def test_buffers_are_whole_rolling_or_weights() -> None:
    buffers = {(each.name, each.kind): each for each in story().buffers}
    assert set(buffers) == {
        ("image", "whole"),
        ("a", "rolling"),
        ("b", "rolling"),
        ("c", "whole"),
        ("d", "whole"),
        ("a (CONV_2D)", "weights"),
        ("d (CONV_2D)", "weights"),
    }
    assert buffers["a", "rolling"].extents == (3, SIDE, 8)
    assert buffers["d (CONV_2D)", "weights"].bytes == 2 * 8 * 18


def test_the_frontier_tells_overheads_and_marks_the_chosen() -> None:
    chosen = schedule()
    fast = replace(chosen, peak=9000, cycles=chosen.cycles // 2)
    points = schedule_report("m", 4096, chosen, replay(chosen), Frontier((fast, chosen), 10)).frontier
    assert [(point.peak, point.chosen) for point in points] == [(9000, False), (PEAK, True)]
    assert points[0].overhead == 0
    assert points[1].overhead == chosen.cycles / fast.cycles - 1
    assert points[1].cascades == ((0, 2),)


def test_the_story_is_an_object_of_json() -> None:
    told = json.loads(json.dumps(asdict(story())))
    assert list(told) == [
        "model",
        "system",
        "fits",
        "budget",
        "planned",
        "measured",
        "spilled",
        "plans",
        "buffers",
        "frontier",
        "bound",
        "least",
        "input",
        "handed_over",
        "together",
    ]
    assert told["fits"] is True


def test_tensors_outside_of_the_working_memory_are_told() -> None:
    system = system_for("u65-256")
    made = replace(schedule(), system=system, spill_peak=512)
    assert schedule_report("m", 4096, made, replay(schedule())).spilled == {"dram": 512}
    assert story().spilled == {}
