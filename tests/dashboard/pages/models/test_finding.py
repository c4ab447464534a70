"""Operations that are looked for in the graph of a plan, and scopes that are folded and unfolded."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.dashboard.pages.models.scripted_models import browser_of, calls_of, runs_by, served
from tests.support.dashboard import PageBrowser
from tests.support.explanations import explained, scoped

PLAN = "/models/net/plan"


@pytest.fixture
def browser() -> PageBrowser:
    browser = browser_of(served())
    runs_by(browser, explained(scoped(80)))
    return browser


def link(page: str, words: str) -> str:
    """The address of the link that says something."""
    (found,) = re.findall(rf"<a [^>]*?href=['\"]([^'\"]*)['\"][^>]*>{re.escape(words)}</a>", page)
    return unescape(found)


def test_an_operation_that_is_found_is_shown_at_its_place_in_the_graph(browser: PageBrowser) -> None:
    page = browser.page(f"{PLAN}?find=node45")
    assert "1 operation found" in page
    address = link(page, "encoder/block1/attention/node45")
    assert address.endswith("#old-operation-45")
    shown = browser.page(address)
    assert "id='old-operation-45'" in shown
    assert "Unfold encoder/block0," in shown
    assert "Operation 45" in shown


def test_all_words_have_to_fit_and_only_the_first_operations_are_listed(browser: PageBrowser) -> None:
    assert "4 operations found" in browser.page(f"{PLAN}?find=add+attention")
    assert "80 operations found, the first 30 of them" in browser.page(f"{PLAN}?find=npu")
    assert "no operations found" in browser.page(f"{PLAN}?find=<no>such")
    assert " found" not in browser.page(PLAN)


def test_scopes_are_unfolded_and_folded_again(browser: PageBrowser) -> None:
    page = browser.page(f"{PLAN}?open=all")
    assert "id='old-operation-1'" not in page
    unfolded = browser.page(link(page, "Unfold all scopes"))
    assert "id='old-operation-1'" in unfolded
    assert "Unfold all scopes" in unfolded
    assert "id='old-operation-1'" not in browser.page(link(unfolded, "Fold all scopes"))
    one = browser.page(f"{PLAN}?open=all&unfolded=3")
    assert "<code>encoder/block1</code>" in one
    assert link(one, "Fold") == f"{PLAN}?open=all#old-operation-40"


def test_parts_are_asked_for_without_asking_the_framework_again(browser: PageBrowser) -> None:
    browser.page(PLAN)
    asked = len(calls_of(browser, "explain"))
    view = browser.get(f"{PLAN}?open=all", {"nnhal-part": "plan-view"}).text
    assert view.startswith('<div id="plan-view">')
    assert len(view) < len(browser.page(f"{PLAN}?open=all"))
    chosen = browser.get(f"{PLAN}?open=all&node=7", {"nnhal-part": "chosen"}).text
    assert chosen.startswith('<section class="chosen"')
    assert "Operation 7" in chosen
    assert "<svg" not in chosen
    assert len(calls_of(browser, "explain")) == asked + 2


@pytest.mark.parametrize("query", ["unfolded=x", "unfolded=-1"])
def test_scopes_that_make_no_sense_are_refused(browser: PageBrowser, query: str) -> None:
    assert "expected" in browser.page(f"{PLAN}?{query}", 400)
