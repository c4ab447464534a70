"""Events, as a page and as JSON."""

from __future__ import annotations

import re

import pytest

from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process, framework_process, framework_state

NOW = 1_800_000_000.0


def event(before: float, kind: str, subject: str, text: str) -> supervisor_pb2.ProcessEvent:
    return supervisor_pb2.ProcessEvent(at_ns=round((NOW - before) * 1e9), subject=subject, kind=kind, text=text)


EVENTS = (
    event(7200, "loaded", "digits", "model digits is loaded, version 1"),
    event(1200, "started", "npu", "serves"),
    event(60, "died", "npu", "killed by SIGKILL"),
    event(59, "replanned", "digits", "model digits is planned again without npu"),
    event(58, "replanned", "digits_int8", "model digits_int8 is planned again without npu2"),
    event(30, "exploded", "npu2", "of a kind that is new"),
)


def browser(*events: supervisor_pb2.ProcessEvent) -> PageBrowser:
    names = ("digits", "digits_int8")
    models = [framework_admin_pb2.ServedModelState(name=name, version="1", state="READY") for name in names]
    devices = (device_process("npu"), device_process("npu2"), framework_process())
    return PageBrowser(
        ScriptedCollector(*devices, at=NOW, framework=framework_state(models=models), events=events or EVENTS)
    )


def told(pages: PageBrowser, query: str) -> list[str]:
    """The texts of the events of a query, the newest first."""
    return [each["text"] for each in pages.get(f"/events.json?{query}").json()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [5, 4, 3, 2, 1, 0]),
        ("range=15m", [5, 4, 3, 2]),
        ("range=1h", [5, 4, 3, 2, 1]),
        ("kind=plan", [4, 3]),
        ("kind=failure", [5]),
        ("device=npu", [3, 2, 1]),
        ("device=npu2", [5, 4]),
        ("model=digits", [3, 0]),
        ("text=SIGKILL", [2]),
        ("text=sigkill&device=npu&kind=death&range=24h", [2]),
        ("kind=death&model=digits", []),
        ("from=2027-01-15T07:59:00Z&until=2027-01-15T07:59:01Z", [3, 2]),
        ("from=2027-01-15T07:59:02Z&range=5m", [5, 4]),
    ],
)
def test_a_query_selects(query: str, found: list[int]) -> None:
    assert told(browser(), query) == [EVENTS[number].text for number in found]


def test_the_page_shows_what_the_json_has() -> None:
    page = browser().page("/events?range=15m&kind=death")
    assert "killed by SIGKILL" in page and "planned again" not in page
    assert 'href="/events.json?kind=death&amp;range=15m"' in page
    assert re.search(r'<a href="/runs\?from=[^"]*"><time datetime=\'2027-01-15T07:59:00Z\' data-date>', page)
    assert 'href="/devices/npu"' in page
    assert 'href="?range=24h&amp;kind=death"' in page


def test_json_says_when_and_what() -> None:
    (found,) = browser().get("/events.json?kind=death").json()
    assert found == {
        "at": "2027-01-15T07:59:00Z",
        "at_ns": EVENTS[2].at_ns,
        "kind": "died",
        "mark": "death",
        "subject": "npu",
        "text": "killed by SIGKILL",
        "number": 0,
        "who": "",
        "before": "",
        "undo": "",
    }


def changed(undo: str) -> supervisor_pb2.ProcessEvent:
    told = event(5, "changed", "npu", "npu takes no new work, and has none")
    told.who, told.before, told.undo = "token boss from 10.0.0.7 by the dashboard; user 0", "up", undo
    return told


def test_a_change_is_told_with_who_made_it_and_is_undone_by_a_form() -> None:
    pages = browser(changed('processes/npu/log-level {"level": "info"}'))
    page = pages.page("/events?kind=change")
    assert "by token boss from 10.0.0.7 by the dashboard; user 0; before: up" in page
    fields = dict(re.findall(r'name="(at_ns|subject)" value="([^"]*)"', page))
    assert pages.post("/events/undo", "/events", fields).headers["location"] == "/events"
    assert ("npu", "set_log_level", ("info",), {}) in pages.script.calls
    assert "npu logs from level info on." in pages.page("/events")
    assert [change.subject for change in pages.script.changes] == ["npu"]


def test_what_cannot_be_undone_has_no_form() -> None:
    pages = browser(changed(""))
    assert "/events/undo" not in pages.page("/events")
    assert pages.post("/events/undo", "/devices/npu", {"at_ns": "1", "subject": "npu"}).status_code == 404


def test_an_empty_list_says_why() -> None:
    assert "Nothing has happened yet." in PageBrowser(ScriptedCollector()).page("/events")
    assert "Nothing has happened in this time." in browser(EVENTS[0]).page("/events?range=5m")
    assert "No event is as asked in this time." in browser().page("/events?text=nothing+like+it")


@pytest.mark.parametrize("query", ["kind=no", "range=2y", "from=soon", "until=2027-13-01"])
@pytest.mark.parametrize("path", ["/events", "/events.json"])
def test_a_query_that_makes_no_sense_is_refused(path: str, query: str) -> None:
    assert "expected" in browser().page(f"{path}?{query}", 400)


def test_a_moment_shows_its_runs_and_what_happened() -> None:
    pages = browser()
    page = pages.page("/runs?from=2027-01-15T07:58:55Z&until=2027-01-15T07:59:05Z")
    assert "killed by SIGKILL" in page and "is loaded" not in page
    assert "Runs of that moment" in page
    assert "expected an instant as" in pages.page("/runs?from=then", 400)


@pytest.mark.parametrize("room", ["/runs", "/events"])
def test_a_time_may_have_no_end_or_no_beginning(room: str) -> None:
    pages = browser()
    after, before = (pages.page(f"{room}?{name}=2027-01-15T07:59:00Z") for name in ("from", "until"))
    assert "killed by SIGKILL" in after and "is loaded" not in after
    assert "killed by SIGKILL" in before and "is loaded" in before and "of a kind that is new" not in before
