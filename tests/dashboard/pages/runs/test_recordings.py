"""Recordings: beginning one, its runs, and the file."""

from __future__ import annotations

import pytest

from nnhal.errors import HalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_admin_pb2 as wire
from tests.support.dashboard import PageBrowser, ScriptedCollector, framework_process, framework_state
from tests.support.ended_runs import recorded_run


def browser(*states: wire.RecordingState) -> PageBrowser:
    collector = ScriptedCollector(framework_process(), framework=framework_state(), recordings=states)
    collector.contacts.answers["framework", "record"] = 3
    return PageBrowser(collector)


def holding(pages: PageBrowser, *runs: wire.FinishedRun, left: int = 0) -> PageBrowser:
    pages.script.answers["framework", "recording"] = wire.GetRecordingResponse(runs=runs, left=left)
    return pages


def test_the_form_begins_a_recording_and_leads_to_it() -> None:
    pages = browser()
    answer = pages.post("/recordings", "/runs", {"model": "digits", "count": "20"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/recordings/3")
    assert ("framework", "record", ("digits", 20), {}) in pages.script.calls


@pytest.mark.parametrize("count", ["", "0", "1001", "-1", "many", "1.5"])
def test_a_wrong_count_is_refused_with_what_is_expected(count: str) -> None:
    pages = browser()
    assert pages.post("/recordings", "/runs", {"count": count}).headers["location"] == "/runs"
    assert "expected 1 to 1000" in pages.page("/runs")
    assert not pages.script.calls


def test_a_recording_without_its_form_token_is_refused() -> None:
    pages = browser()
    assert pages.send("/recordings", {"count": "1"}).status_code == 403
    assert not pages.script.calls


def test_recordings_are_listed_the_newest_first() -> None:
    text = browser(
        wire.RecordingState(number=1, model="digits", runs=4), wire.RecordingState(number=2, runs=1, left=9)
    ).page("/runs")
    assert text.index("/recordings/2") < text.index("/recordings/1")


def test_a_recording_shows_its_runs_and_its_progress() -> None:
    pages = holding(browser(wire.RecordingState(number=2, model="digits", runs=3, left=7)), recorded_run(1), left=7)
    text = pages.page("/recordings/2")
    assert "3 of 10 runs of digits are recorded, the others are to come." in text
    assert "2 more have been recorded since this page was loaded." in text
    assert "/recordings/2/trace.json" in text
    assert 'href="/recordings/2/1"' in text


def test_a_recording_without_runs_says_what_to_do() -> None:
    text = holding(browser(wire.RecordingState(number=2, left=7)), left=7).page("/recordings/2")
    assert "No run has come yet." in text
    assert "trace.json" not in text


def test_a_run_of_a_recording_has_a_page() -> None:
    pages = holding(browser(), recorded_run(1), recorded_run(2, model="net"))
    pages.script.answers["framework", "explain"] = wire.ExplainTargetResponse()
    assert "Run 2 of recording 5: net" in pages.page("/recordings/5/2")
    assert "recording 5 has no run 3: it has 2" in pages.page("/recordings/5/3", 404)


def test_the_timeline_is_a_file() -> None:
    answer = holding(browser(), recorded_run(1)).get("/recordings/5/trace.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="nnhal-recording-5.json"'
    names = {event["name"] for event in answer.json()["traceEvents"]}
    assert {"digits", "step 0", "copy in", "image"} <= names


def test_a_recording_that_is_not_kept_is_not_found() -> None:
    pages = browser()

    def dropped(_: int) -> None:
        invalid_argument("there is no recording 5")

    pages.script.answers["framework", "recording"] = dropped
    assert "there is no recording 5" in pages.page("/recordings/5", 404)


def test_another_refusal_is_an_error() -> None:
    pages = browser()
    error = HalError(ErrorStatus.GENERAL_FAILURE, "only an operator may see recorded runs")
    pages.script.answers["framework", "recording"] = error
    assert "only an operator may" in pages.page("/recordings/5", 502)


def test_a_number_beyond_the_wire_s_is_refused() -> None:
    assert "less than" in browser().page("/recordings/99999999999999999999", 422)
