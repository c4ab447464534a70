"""Reasons why an operation moved from one plan to the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal_client.explanation import Explanation
from nnhal_pages.comparison.reasons import move_reason
from nnhal_pages.facts import facts_of
from tests.support.explanations import Placed, explained

CONV = Placed("conv", "CONV_2D", "npu", ("x",), ("a",))
RELU = Placed("relu", "RELU", "npu", ("a",), ("b",))
SOFTMAX = Placed("softmax", "SOFTMAX", "cpu", ("b",), ("y",))
OLD = explained([CONV, RELU, SOFTMAX])


def moved(conv: Placed = CONV, relu: Placed = RELU, **costs: float) -> Explanation:
    """A plan in which relu is on the gpu; ``costs`` are its modelled times by device."""
    plan = explained([conv, replace(relu, device="gpu"), SOFTMAX])
    stories = list(plan.operations)
    stories[1] = replace(stories[1], costs=costs or stories[1].costs)
    return replace(plan, operations=tuple(stories))


def reason(plan: Explanation) -> str:
    return move_reason(OLD.operations[1], plan, 1, facts_of(plan))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (moved(relu=replace(RELU, pin="name:relu")), "pinned by name:relu"),
        (moved(relu=replace(RELU, refusals={"npu": "STRIDE: got 4"})), "npu refuses it: STRIDE: got 4"),
        (replace(moved(), devices=OLD.devices[1:]), "npu is not among the devices of this plan"),
        (moved(npu=2000.0, gpu=1000.0), "faster there: 1.0 µs instead of 2.0 µs"),
        (moved(npu=1000.0, gpu=1000.0), "a tie of costs, 1.0 µs on both"),
        (
            moved(replace(CONV, device="gpu", pin="index:0"), npu=1000.0, gpu=1000.0),
            "a tie of costs, 1.0 µs on both; follows its neighbour conv, which is pinned",
        ),
        (
            moved(replace(CONV, device="gpu"), npu=1000.0, gpu=3000.0),
            "follows its neighbour conv: 2.0 µs slower there, but the plan as a whole takes less without the hand-over",
        ),
        (moved(npu=1000.0, gpu=3000.0), "2.0 µs slower there, but the plan as a whole takes less so"),
        (moved(gpu=3000.0), "npu gives no modelled time for it"),
    ],
)
def test_a_move_has_the_reason_that_is_known_of_it(plan: Explanation, words: str) -> None:
    assert reason(plan) == words


def test_a_pin_that_is_gone_is_told() -> None:
    old = replace(OLD.operations[1], pin="op:RELU")
    plan = moved(npu=2000.0, gpu=1000.0)
    assert move_reason(old, plan, 1, facts_of(plan)).startswith("not pinned by op:RELU any more; faster there")
