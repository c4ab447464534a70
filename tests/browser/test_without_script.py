"""Pages in a browser that runs no script: complete, and their forms work."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import StartVisit
from tests.browser.test_pages import PAGES
from tests.support.browsing import Visit
from tests.support.showcase import DEVICES, MODELS, Showcase
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser


@pytest.fixture
def scriptless(start_visit: StartVisit) -> Visit:
    return start_visit(java_script_enabled=False)


def test_every_page_has_its_values(scriptless: Visit) -> None:
    page = scriptless.open("/")

    def all_answer() -> bool:
        page.reload()
        return page.get_by_text("is silent").count() == 0

    wait_until(all_answer, "all devices answer", 60)  # which may take long on a busy machine, and the page says so
    for name in (*DEVICES, *MODELS):
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()
    for path in PAGES:
        scriptless.go(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        for part in page.locator("[data-live]").all():
            expect(part).not_to_be_empty()


def test_forms_find_and_change_things(scriptless: Visit, testbed: Showcase) -> None:
    page = scriptless.open("/logs")
    form = page.locator("form[method=post]")
    form.get_by_label("Process").select_option("cpu_ref")
    form.get_by_label("Level").select_option("debug")
    form.get_by_role("button", name="Change the level").click()
    expect(page.locator(".notice.done")).to_contain_text("Done.")
    page.get_by_label("Contains").fill("no such line")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No line is as asked.")).to_be_visible()


def test_a_device_drains_and_takes_work_again(scriptless: Visit, testbed: Showcase) -> None:
    page = scriptless.open("/devices/cpu_ref")
    page.get_by_role("button", name="Drain").click()
    expect(page.locator(".notice.done")).to_contain_text("cpu_ref takes no new work")
    expect(page.locator("main .state").first).to_have_text("drained")
    page.get_by_role("button", name="Take work again").click()
    expect(page.locator(".notice.done")).to_contain_text("cpu_ref takes work again")
    expect(page.locator("main .state").first).to_have_text("up")
