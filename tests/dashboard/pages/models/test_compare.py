"""Two plans side by side."""

from __future__ import annotations

from nnhal.v1 import framework_admin_pb2 as wire
from tests.dashboard.pages.models.scripted_models import browser_of, calls_of, runs_by, served
from tests.support.dashboard import PageBrowser, ScriptedCollector
from tests.support.explanations import chain, explained


def test_what_can_be_compared_is_offered() -> None:
    model = wire.SessionModelState(session="s1", name="mine", devices=["npu"])
    page = browser_of(served("one"), served("broken", "UNAVAILABLE"), session_models=[model]).page("/compare")
    assert "model:one" in page
    assert "session:s1:mine" in page
    assert "model:broken" not in page


def test_two_models_are_compared() -> None:
    browser = browser_of(served("one"), served("two"))
    runs_by(browser, explained(chain(3)))
    page = browser.page("/compare?a=model:one&b=model:two&node=2")
    assert "No operation moved" in page
    assert "Operation 2" in page
    assert [target.model for (target,) in calls_of(browser, "explain")] == ["one", "two"]


def test_a_plan_of_a_while_ago_is_compared_with_that_of_now() -> None:
    browser = browser_of(served("net"))
    runs_by(browser, explained(chain(3)))
    browser.page("/models/net/plan")
    (kept,) = browser.collector.plans.earlier()
    runs_by(browser, explained(chain(3, "cpu")))
    assert "3 operations moved" in browser.page(f"/compare?a=plan:{kept.plan.key}&b=model:net")


def test_a_plan_that_is_kept_no_more_is_not_found() -> None:
    assert "not kept any more" in browser_of(served()).page("/compare?a=plan:0&b=model:net", 404)


def test_a_choice_that_makes_no_sense_is_refused() -> None:
    assert "expected plan:KEY" in browser_of(served()).page("/compare?a=x&b=y", 400)


def test_without_a_model_there_is_nothing_to_compare() -> None:
    assert "There is no plan to compare" in PageBrowser(ScriptedCollector()).page("/compare")
