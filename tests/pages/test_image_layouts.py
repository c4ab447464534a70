"""Text about the layout of images, in tables and on pages."""

from __future__ import annotations

from dataclasses import replace

from nnhal_client.explanation import Explanation, ImageLayoutStory
from nnhal_pages.explanation.fragment import fragment
from nnhal_pages.facts import operation_name
from nnhal_pages.image_layouts import ADDED, layout_figure, layout_words
from tests.support.explanations import explained, residual
from tests.support.html import parsed

PLAN = explained(residual(15))


def laid_out(layout: ImageLayoutStory, added: int = 0) -> Explanation:
    stories = [
        replace(story, nodes=(), number=None, added=True) if number < added else story
        for number, story in enumerate(PLAN.operations)
    ]
    return replace(PLAN, operations=tuple(stories), image_layout=layout)


def test_a_plan_that_nobody_wants_otherwise_says_nothing() -> None:
    assert layout_figure(PLAN) == layout_words(PLAN) == ""
    assert "Layout" not in parsed(fragment(PLAN)).text


def test_channels_last_is_told_with_what_it_costs() -> None:
    plan = laid_out(ImageLayoutStory(True, ("npu",), 3e6, ""), added=2)
    assert layout_figure(plan) == "channels last"
    assert layout_words(plan) == (
        "the model has channels first, npu wants them last; 2 operations were added for that, 2.0 µs modelled; with "
        "channels first a run would take 3.00 ms modelled"
    )
    assert operation_name(plan.operations[0], 0) == ADDED


def test_a_layout_that_was_not_chosen_is_told_with_its_time() -> None:
    plan = laid_out(ImageLayoutStory(False, ("npu", "gpu"), 3e6, ""))
    assert layout_figure(plan) == "channels first"
    assert layout_words(plan) == (
        "as in the model, though npu and gpu want channels last; with channels last a run would take 3.00 ms modelled"
    )


def test_a_layout_that_is_not_possible_is_told_with_the_reason() -> None:
    plan = laid_out(ImageLayoutStory(True, ("npu",), 0.0, "no device takes it"))
    assert layout_words(plan).endswith(
        "nothing had to be added for that; no plan with channels first: no device takes it"
    )
    unmodelled = laid_out(ImageLayoutStory(False, ("npu",), 0.0, ""))
    assert layout_words(unmodelled).endswith("with channels last the devices give no modelled time")


def test_the_page_has_it_among_its_sums() -> None:
    (sums,) = parsed(fragment(laid_out(ImageLayoutStory(True, ("npu",), 3e6, ""), 1))).having("sums")
    assert "Layout of images" in sums.text
    assert "1 operation was added" in sums.text
