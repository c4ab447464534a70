from __future__ import annotations

import pytest

from nnhal_dashboard.web.ranges import RANGES
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process


def test_a_range_is_kept_from_page_to_page_and_is_in_the_address() -> None:
    browser = PageBrowser(ScriptedCollector(device_process()))
    assert 'aria-current="true">15 min</a>' in browser.page("/metrics")
    assert 'aria-current="true">1 h</a>' in browser.page("/metrics?range=1h")
    answer = browser.get("/devices/npu?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/devices/npu?x=1&range=1h")
    assert "The last 1 h" in browser.page("/devices/npu?x=1&range=1h")
    browser.page("/metrics?range=15m")
    assert browser.get("/devices/npu").status_code == 200


def test_each_browser_has_its_own() -> None:
    collector = ScriptedCollector(device_process())
    PageBrowser(collector).page("/metrics?range=24h")
    assert PageBrowser(collector).get("/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/devices/npu"])
def test_a_range_that_there_is_not_is_refused(path: str) -> None:
    text = PageBrowser(ScriptedCollector(device_process())).page(f"{path}?range=2y", 400)
    assert "range is &#39;2y&#39;, expected one of 5m, 15m, 1h, 24h" in text


@pytest.mark.parametrize(("minutes", "shown"), [("1", "5m"), ("5", "5m"), ("15", "15m")])
def test_addresses_of_the_time_before_are_known(minutes: str, shown: str) -> None:
    answer = PageBrowser(ScriptedCollector()).get(f"/metrics?minutes={minutes}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/metrics?range={shown}")


def test_a_line_has_as_many_points_as_can_be_seen() -> None:
    for each in RANGES.values():
        assert 150 <= each.seconds / each.step <= 240
