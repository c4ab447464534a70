"""One time for all charts: when something happened, and what ran then."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
import tritonclient.http
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import StartVisit
from tests.support.browsing import Visit, stand_still
from tests.support.showcase import Showcase
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser

_LONG_MS = 60_000
"""For what waits for a process that is started again, or for the next samples."""


@pytest.fixture(scope="module")
def killed(testbed: Showcase) -> Showcase:
    """A testbed that has served requests, and one of whose devices was killed and came back."""
    first = testbed.process("cpu_ref").pid
    _requests(testbed, 3)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: testbed.runs("cpu_ref", other_than=first), "cpu_ref is back", _LONG_MS / 1000)
    _requests(testbed, 3)
    return testbed


def test_from_a_death_on_the_overview_to_the_runs_of_that_moment(visit: Visit, killed: Showcase) -> None:
    """Story "14:03": one click leads to the charts, one on the mark to the runs, and one to a run."""
    page = visit.open("/")
    page.get_by_role("link", name="Metrics", exact=True).click()
    mark = _death(page)
    expect(mark).to_be_visible(timeout=_LONG_MS)
    stand_still(page)
    mark.click()
    expect(page.get_by_role("heading", name="Runs of that moment")).to_be_visible()
    expect(page.get_by_role("region", name="What happened then")).to_contain_text("SIGKILL")
    runs = page.get_by_role("region", name="runs, the newest first").get_by_role("row")
    expect(runs.nth(1)).to_contain_text("digits", timeout=_LONG_MS)
    stand_still(page)
    runs.nth(1).get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("of digits")


def test_what_is_slow_is_found_in_three_clicks(visit: Visit, killed: Showcase) -> None:
    page = visit.open("/")
    page.get_by_role("link", name="Metrics", exact=True).click()
    chart = page.locator("[data-live^='metrics.latency']")
    # A sample has been taken, so that the next one has these requests.
    expect(page.locator("[data-live^='metrics.memory'] [data-chart]")).to_have_count(1, timeout=_LONG_MS)
    _requests(killed, 3)
    expect(chart.locator("[data-chart]")).to_have_count(1, timeout=_LONG_MS)
    stand_still(page)
    chart.get_by_text("Numbers").click()
    chart.get_by_role("link", name="digits", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("digits")


def test_a_range_is_kept_from_page_to_page(visit: Visit, killed: Showcase) -> None:
    page = visit.open("/metrics")
    page.get_by_role("link", name="1 h", exact=True).click()
    expect(page).to_have_url(re.compile(r"/metrics\?range=1h$"))
    page.get_by_role("link", name="Events", exact=True).first.click()
    expect(page).to_have_url(re.compile(r"/events\?range=1h$"))
    expect(page.get_by_role("region", name="events, the newest first")).to_contain_text("SIGKILL")
    page.get_by_label("Kind").select_option("death")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("kind=death"))
    expect(page).to_have_url(re.compile("range=1h"))


def test_times_are_those_of_the_browser(start_visit: StartVisit, killed: Showcase) -> None:
    here, there = start_visit(timezone_id="Asia/Kolkata"), start_visit(java_script_enabled=False)
    local, universal = here.open("/events?kind=death"), there.open("/events?kind=death")
    said = universal.locator("main td time").first
    expect(said).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    instant = str(said.get_attribute("datetime"))
    wanted = local.evaluate(
        "(at) => new Date(at).toLocaleTimeString('en-GB', {timeZone: 'Asia/Kolkata', hour12: false})", instant
    )
    expect(local.locator(f"main time[datetime='{instant}']").first).to_have_text(re.compile(rf" {wanted}$"))
    here.go(local, "/metrics")
    expect(local.locator(".ranges [data-zone]")).to_have_text("GMT+5:30")
    expect(local.locator("[data-live^='metrics.memory'] svg [data-zone]")).to_have_text("GMT+5:30", timeout=_LONG_MS)


def test_all_charts_point_at_the_same_instant(visit: Visit, killed: Showcase) -> None:
    page = visit.open("/metrics?range=24h")
    names = ("requests", "models", "memory")
    expect(page.locator("[data-live^='metrics.memory'] [data-chart]")).to_have_count(1, timeout=_LONG_MS)
    _requests(killed, 3)
    for name in names:
        expect(page.locator(f"[data-live^='metrics.{name}'] [data-chart]")).to_have_count(1, timeout=_LONG_MS)
    page.get_by_role("region", name="Memory by process").focus()
    page.keyboard.press("End")
    for name in names:
        expect(page.locator(f"[data-live^='metrics.{name}'] .crosshair")).to_have_count(1)
    expect(page.locator("#pointed-at")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d: .*cpu_ref"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-live^='metrics.memory'] .crosshair")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".crosshair")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs\?from=.*&until=.*&sort=took"))
    page.go_back()
    chart = page.locator("[data-live^='metrics.requests'] svg.drawing")
    expect(chart.locator("[data-chart]")).to_have_count(1, timeout=_LONG_MS)
    chart.click(position={"x": 200, "y": 60})
    expect(page).to_have_url(re.compile(r"/runs\?from=.*&until=.*&sort=took"))


def test_charts_outlast_the_dashboard(visit: Visit, killed: Showcase) -> None:
    visit.expected.append("ERR_|Failed to load resource|network error")
    page = visit.open("/metrics?range=1h")
    expect(_death(page)).to_be_visible(timeout=_LONG_MS)
    _requests(killed, 3)
    models = page.locator("[data-live^='metrics.models'] [data-chart]")
    expect(models).to_have_count(1, timeout=_LONG_MS)
    first = killed.process("dashboard").pid
    os.kill(first, signal.SIGTERM)
    wait_until(lambda: killed.runs("dashboard", other_than=first), "the dashboard serves again", _LONG_MS / 1000)
    page.reload()
    expect(models).to_have_count(1)
    expect(_death(page)).to_be_visible()


def _death(page: Page) -> Locator:
    """The mark of the death in a chart that always has values while somebody looks."""
    return page.locator("[data-live^='metrics.memory'] .event-mark[aria-label*=SIGKILL]").first


def _requests(testbed: Showcase, count: int) -> None:
    with Triton("http", tritonclient.http, testbed.http) as triton:
        for _ in range(count):
            triton.infer("digits", {"image": np.zeros((1, 1, 8, 8), np.float32)})
