"""The page of all hosts, with one that answers and one that is not there."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Visit
from tests.support.showcase import DEVICES

pytestmark = pytest.mark.browser


def test_a_host_leads_to_its_own_dashboard_and_one_that_is_gone_says_why(visit: Visit) -> None:
    page = visit.open("/hosts")
    expect(page.get_by_role("row", name="blue")).to_contain_text("It cannot be reached: Connection refused")
    green = page.get_by_role("row", name="green")
    expect(green.locator(".state")).to_have_text("up")
    expect(green).to_contain_text(f"{len(DEVICES)} of {len(DEVICES)}")
    expect(page.locator(".sums")).to_contain_text(f"{2 * len(DEVICES)} of {2 * len(DEVICES)}")
    green.get_by_role("link", name="green").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
