"""The list of runs."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import TransportError
from nnhal.v1 import admin_pb2, framework_admin_pb2
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
)
from tests.support.ended_runs import ended_run

_RUNNING = admin_pb2.ExecutionState.PHASE_RUNNING


def execution(**fields: Any) -> admin_pb2.ExecutionState:
    given: dict[str, Any] = {
        "id": "r7",
        "what": "digits 1",
        "phase": _RUNNING,
        "deadline_ns": -1,
        "can_be_cancelled": True,
    }
    return admin_pb2.ExecutionState(**given | fields)


def browser(**fields: Any) -> PageBrowser:
    state = framework_state(models=[framework_admin_pb2.ServedModelState(name="digits", version="1", state="READY")])
    return PageBrowser(ScriptedCollector(device_process(), framework_process(), framework=state, **fields))


def test_what_runs_in_the_framework_is_shown_with_who_asked_and_can_be_cancelled() -> None:
    pages = browser(live=(execution(client="10.0.0.7:4123", request_id="q9"),))
    text = pages.page("/runs")
    for expected in ("r7", "digits 1", "running", "10.0.0.7:4123", "request q9"):
        assert expected in text
    fields = {"process": "framework", "execution": "r7", "room": "runs"}
    answer = pages.post("/executions/cancel", "/runs", fields)
    assert answer.headers["location"] == "/runs"
    assert ("framework", "cancel_execution", ("r7",), {}) in pages.script.calls


def test_direct_runs_are_shown_by_device() -> None:
    process = admin_pb2.GetProcessResponse(executions=[execution(id="e3", what="prepared model 4", session="s2")])
    pages = PageBrowser(ScriptedCollector(device_process("npu", process), device_process("cpu"), framework_process()))
    text = pages.page("/runs")
    assert "prepared model 4" in text
    assert "/sessions/npu/s2" in text
    assert 'Nothing is executed at this moment on <a href="/devices/cpu">cpu</a>' in text


def test_a_device_that_is_gone_is_said_to_be_unknown() -> None:
    pages = PageBrowser(ScriptedCollector(device_process("npu", silence="it does not answer"), framework_process()))
    assert "so what is executed there is not known" in pages.page("/runs")


def test_without_a_framework_or_a_device_the_page_says_what_to_do() -> None:
    text = PageBrowser(ScriptedCollector()).page("/runs")
    for expected in ("start one with &#39;nnhal up&#39;", "No device is known", "No run is known yet", "/try"):
        assert expected in text or expected.replace("&#39;", "'") in text


def test_a_framework_that_is_silent_is_an_error() -> None:
    pages = PageBrowser(ScriptedCollector(framework_process(silence="it was stopped")))
    assert "<strong>The framework does not answer:</strong> it was stopped" in pages.page("/runs")


def test_runs_that_have_ended_are_listed_the_newest_first() -> None:
    runs = tuple(ended_run(number, request_id=f"q{number}") for number in (1, 2, 3))
    text = browser(finished=runs).page("/runs")
    assert "3 of the last 3 runs" in text
    assert text.index("/runs/3") < text.index("/runs/2") < text.index("/runs/1")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("model=digits", {1, 2}),
        ("client=10.0.0.8", {2}),
        ("client=Q3", {3}),
        ("errors=yes", {2, 3}),
        ("errors=yes&model=digits", {2}),
    ],
)
def test_a_query_selects_runs(query: str, shown: set[int]) -> None:
    runs = (
        ended_run(1),
        ended_run(2, client="10.0.0.8:99", error="queue full"),
        ended_run(3, model="net", request_id="q3", fell_back=True),
    )
    text = browser(finished=runs).page(f"/runs?{query}")
    assert {number for number in (1, 2, 3) if f'href="/runs/{number}"' in text} == shown


def test_a_query_that_selects_nothing_leads_back() -> None:
    assert "No run is as asked." in browser(finished=(ended_run(1),)).page("/runs?model=nothing")


def test_of_many_runs_the_newest_are_shown_and_all_on_demand() -> None:
    pages = browser(finished=tuple(ended_run(number) for number in range(1, 251)))
    text = pages.page("/runs?model=digits")
    assert "150 older ones are not shown" in text
    assert 'href="/runs/150"' not in text
    assert "/runs?model=digits&amp;all=yes" in text
    assert 'href="/runs/1"' in pages.page("/runs?model=digits&all=yes")


def test_runs_of_the_framework_s_life_before_have_addresses_of_their_own() -> None:
    old, new = ended_run(1, client="old:1", arrived_ns=10**9), ended_run(1, client="new:1")
    pages = browser(finished=(old, new))
    text = pages.page("/runs")
    assert 'href="/runs/1"' in text
    assert 'href="/runs/1?arrived=1000000000"' in text
    assert "new:1" in pages.page("/runs/1")
    assert "old:1" in pages.page("/runs/1?arrived=1000000000")


def test_names_of_strangers_are_text() -> None:
    attack = "<script>alert(1)</script>"
    run = ended_run(1, model=attack, client=attack, request_id=attack, error=attack)
    pages = browser(finished=(run,), live=(execution(what=attack, client=attack, request_id=attack),))
    assert attack not in pages.page("/runs") + pages.page("/runs/1")


def test_all_runs_that_are_kept_can_be_shown() -> None:
    pages = browser(finished=tuple(ended_run(number) for number in range(1, 501)))
    text = pages.page("/runs?all=yes")
    assert text.count('<th scope="row"><a href="/runs/') == 500


def test_the_runs_of_a_time_and_the_slowest_are_those_that_the_framework_keeps() -> None:
    pages = browser(finished=(ended_run(9),))
    kept = [ended_run(1, arrived_ns=10**9), ended_run(2, arrived_ns=2 * 10**9, error="no device", client="10.0.0.8:1")]
    pages.script.answers["framework", "find_runs"] = lambda asked: kept[::-1] if asked.slowest else kept
    text = pages.page("/runs?from=2027-01-15T08:00:05Z&until=2027-01-15T08:00:15Z&model=digits")
    assert text.index('href="/runs/1?arrived=1000000000"') < text.index('href="/runs/2?arrived=2000000000"')
    assert 'href="/runs/9"' not in text
    text = pages.page("/runs?sort=took&errors=yes")
    assert 'href="/runs/2?arrived=2000000000"' in text
    assert 'href="/runs/1?' not in text
    (_, _, (by_time,), _), (_, _, (slowest,), _) = pages.script.calls
    assert (by_time.begin_ns, by_time.end_ns, by_time.model) == (1_800_000_005 * 10**9, 1_800_000_015 * 10**9, "digits")
    assert slowest.slowest and slowest.troubled and not slowest.begin_ns
    assert "10.0.0.8:1" in pages.page("/runs/2?arrived=2000000000")
    pages.script.answers["framework", "find_runs"] = TransportError("it was stopped")
    assert "cannot be had: it was stopped" in pages.page("/runs?sort=took")
