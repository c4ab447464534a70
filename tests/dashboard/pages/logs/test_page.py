"""Log lines as a page, as a live part and as a file: selected, and never interpreted."""

from __future__ import annotations

import pytest

from nnhal.v1 import admin_pb2
from nnhal_dashboard.pages.logs.page import visible
from tests.support.dashboard import PageBrowser, ScriptedCollector, ScriptedContacts, device_process, framework_process


def line(text: str, process: str = "npu", level: str = "warning", request: str = "") -> admin_pb2.LogLine:
    return admin_pb2.LogLine(at_ns=10**18, process=process, level=level, text=text, request_id=request)


@pytest.fixture
def browser() -> PageBrowser:
    collector = ScriptedCollector(device_process(), framework_process())
    told = {
        "npu": [line("it is warm"), line("a client said \x1b[31m<b>red</b>\x07")],
        "framework": [line("it failed", level="error", request="r 1"), line("it began", level="info")],
    }
    for name, lines in told.items():
        answer = admin_pb2.GetLogLinesResponse(lines=lines, last=len(lines))
        collector.contacts.answers[name, "log_lines"] = answer
    return PageBrowser(collector)


def test_lines_of_all_processes_are_shown_and_requests_can_be_followed(browser: PageBrowser) -> None:
    page = browser.page("/logs")
    for expected in ("it is warm", "it failed", "it began", 'class="level error"', "/logs?request=r%201"):
        assert expected in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("process=framework", {"it failed", "it began"}),
        ("level=warning", {"it is warm", "it failed"}),
        ("text=WARM", {"it is warm"}),
        ("request=r%201", {"it failed"}),
        ("process=npu&level=error", set()),
    ],
)
def test_lines_are_selected(browser: PageBrowser, query: str, shown: set[str]) -> None:
    for text in (browser.page(f"/logs?{query}"), browser.page(f"/logs.txt?{query}")):
        assert {each for each in ("it is warm", "it failed", "it began") if each in text} == shown


def test_what_a_terminal_would_obey_is_made_visible(browser: PageBrowser) -> None:
    page, file = browser.page("/logs"), browser.page("/logs.txt")
    assert "\u241b[31m&lt;b&gt;red&lt;/b&gt;\u2407" in page
    assert "\u241b[31m<b>red</b>\u2407" in file
    assert "\x1b" not in page + file and visible("a\u202eb\u2028") == "a\\u202eb\\u2028"


def test_an_unknown_level_is_refused(browser: PageBrowser) -> None:
    assert "expected one of" in browser.page("/logs?level=loud", 400)


def test_the_level_of_a_process_is_changed(browser: PageBrowser) -> None:
    answer = browser.post("/logs/level", "/logs", {"process": "npu", "level": "debug"})
    contacts = browser.collector.contacts
    assert isinstance(contacts, ScriptedContacts)
    assert ("npu", "set_log_level", ("debug",), {}) in contacts.calls
    assert "npu logs from level debug on." in browser.page(answer.headers["location"])


def test_without_lines_the_page_says_how_to_get_some() -> None:
    assert "No process has written a line" in PageBrowser(ScriptedCollector()).page("/logs")
