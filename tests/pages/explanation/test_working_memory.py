"""Use of one working memory by the steps of a plan."""

from __future__ import annotations

from dataclasses import replace

from nnhal_client.explanation import Explanation
from nnhal_pages.explanation.fragment import fragment
from nnhal_pages.explanation.working_memory import most_words, shared_steps, working_memory
from tests.support.explanations import BYTES, Placed, explained

ARENA = 10_000


def told(arena: int = ARENA) -> Explanation:
    """Three steps of an NPU, two of a CPU between them, and a value of the first that the last reads."""
    plan = explained(
        [
            Placed("a", "CONV_2D", "npu", ("image",), ("a",)),
            Placed("b", "SOFTMAX", "cpu", ("a",), ("b",)),
            Placed("c", "CONV_2D", "npu", ("b",), ("c",)),
            Placed("d", "SOFTMAX", "cpu", ("c",), ("d",)),
            Placed("e", "ADD", "npu", ("d", "a"), ("e",)),
        ]
    )
    return replace(
        plan, steps=tuple(replace(step, working_bytes=arena * (step.device == "npu")) for step in plan.steps)
    )


def test_each_step_takes_its_own_and_what_lives_across_it() -> None:
    steps = shared_steps(told())
    assert [step.own for step in steps] == [ARENA, 2 * BYTES, ARENA, 2 * BYTES, ARENA]
    assert [step.across for step in steps] == [(), (), (("a", BYTES),), (("a", BYTES),), ()]
    assert most_words(steps) == (
        "working memory, if all steps share one: 14,096 bytes in step 2 on npu (10,000 of its own + a 4,096)"
    )


def test_a_value_that_a_step_reads_and_a_later_one_too_lives_beside_an_arena() -> None:
    plan = explained(
        [
            Placed("a", "SOFTMAX", "cpu", ("image",), ("a",)),
            Placed("b", "CONV_2D", "npu", ("a",), ("b",)),
            Placed("c", "ADD", "cpu", ("a", "b"), ("c",)),
        ]
    )
    plan = replace(
        plan, steps=tuple(replace(step, working_bytes=ARENA * (step.device == "npu")) for step in plan.steps)
    )
    assert [step.across for step in shared_steps(plan)] == [(), (("a", BYTES),), ()]


def test_the_page_has_the_table_and_the_sentence() -> None:
    page = fragment(told())
    assert "What is taken of one working memory while each step runs" in page
    assert "14,096 bytes in step 2" in page


def test_nothing_is_said_if_no_device_tells_what_it_takes() -> None:
    assert not list(working_memory(told(arena=0)))
    assert "working memory" not in fragment(told(arena=0))
