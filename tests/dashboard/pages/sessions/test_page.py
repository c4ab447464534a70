"""The pages of sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal.errors import TransportError
from nnhal.v1 import admin_pb2
from nnhal_hosting.access import read_tokens
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
    supervised,
)
from tests.support.html import Page, parsed
from tests.support.tokens import token_file

_OWNED = [{"kind": "prepared model", "count": 2, "bytes": 4096}]


def _device(*sessions: admin_pb2.SessionState, **fields: object) -> admin_pb2.GetProcessResponse:
    return admin_pb2.GetProcessResponse(name="npu", pid=100, is_whole=True, sessions=sessions, **fields)  # type: ignore[arg-type]


def _session(number: int, **fields: object) -> admin_pb2.SessionState:
    given = {"id": f"s{number}", "pid": 5000 + number, "uid": 1000, "user": "ada", "client_name": f"client-{number}"}
    given |= {"owner": f"process {5000 + number}", "command": "python app.py", "objects": _OWNED}
    return admin_pb2.SessionState(**given | fields)  # type: ignore[arg-type]


def _one(*sessions: admin_pb2.SessionState, **fields: object) -> ScriptedCollector:
    return ScriptedCollector(device_process(process=_device(*sessions, **fields)))


def test_a_session_has_a_row_with_its_owner_and_what_it_holds() -> None:
    pools = [{"session": "s1", "memory": "1:7", "bytes": 1 << 20}, {"session": "s1", "memory": "1:7", "bytes": 1 << 20}]
    text = PageBrowser(_one(_session(1), pools=pools)).page("/sessions")
    for expected in ("/sessions/npu/s1", "client-1", "ada, process 5001", "python app.py", "4 KiB", "1 MiB"):
        assert expected in text
    assert "1 of 1 sessions" in text


def test_an_owner_in_another_container_is_said_to_be_there() -> None:
    text = PageBrowser(_one(_session(1, pid=0, owner="another container", command=""))).page("/sessions")
    assert "another container" in text


def test_sessions_of_nnhal_are_marked_and_have_no_button_in_the_list() -> None:
    sessions = (
        _session(1, is_own=True),
        _session(2, pid=os.getpid(), client_name="nnhal-dashboard"),
        _session(3, pid=101),
        _session(4, pid=0, client_name="nnhal-framework"),
        _session(5),
    )
    collector = ScriptedCollector(device_process(process=_device(*sessions)), framework_process())
    page = parsed(PageBrowser(collector).page("/sessions"))
    assert page.text.count("this dashboard") == 2 and page.text.count("the framework") == 2
    assert _endable(page) == ["s5"]


def test_a_client_that_takes_the_name_of_the_dashboard_is_not_taken_for_it() -> None:
    page = parsed(PageBrowser(_one(_session(1, client_name="nnhal-dashboard"))).page("/sessions"))
    assert _endable(page) == ["s1"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["s1", "s2", "s3"]),
        ("?sort=age", ["s2", "s3", "s1"]),
        ("?sort=objects", ["s3", "s1", "s2"]),
        ("?sort=client", ["s1", "s2", "s3"]),
        ("?text=CLIENT-2", ["s2"]),
        ("?text=5003", ["s3"]),
        ("?process=npu", ["s1", "s2", "s3"]),
    ],
)
def test_sessions_are_sorted_and_chosen_by_the_query(query: str, expected: list[str]) -> None:
    many = [{"kind": "burst", "count": 9}]
    collector = _one(_session(1, opened_ns=30), _session(2, opened_ns=10), _session(3, opened_ns=20, objects=many))
    assert _endable(parsed(PageBrowser(collector).page(f"/sessions{query}"))) == expected


def test_nothing_as_asked_leads_back_to_all() -> None:
    text = PageBrowser(_one(_session(1))).page("/sessions?text=nobody")
    assert "No session is as asked." in text


def test_an_unknown_order_is_refused() -> None:
    assert "sort is &#39;size&#39;" in PageBrowser(_one()).page("/sessions?sort=size", 400)


def test_without_a_session_the_page_says_how_one_comes_about() -> None:
    assert "A client opens one when it connects" in PageBrowser(ScriptedCollector()).page("/sessions")


def test_sessions_of_a_process_that_has_died_are_not_shown() -> None:
    down = device_process(process=_device(_session(1)), silence="it is gone")
    text = PageBrowser(ScriptedCollector(down)).page("/sessions")
    assert "npu does not answer, so the sessions there are not known." in text
    assert "client-1" not in text


def test_sessions_of_a_silent_process_are_shown_as_it_said_them_last() -> None:
    silent = device_process(process=_device(_session(1)), silence="no answer for 5 s", supervised=supervised("npu"))
    browser = PageBrowser(ScriptedCollector(silent))
    assert "client-1" in browser.page("/sessions")
    assert "no answer for 5 s What it said last is below." in parsed(browser.page("/sessions/npu/s1")).text


def test_without_a_key_the_page_says_that_it_does_not_see_all() -> None:
    said = admin_pb2.GetProcessResponse(name="npu", sessions=[_session(1, is_own=True)])
    assert "no admin key of npu" in PageBrowser(ScriptedCollector(device_process(process=said))).page("/sessions")


def test_two_hundred_sessions_are_on_one_page_and_no_more_than_three_hundred() -> None:
    page = parsed(PageBrowser(_one(*map(_session, range(200)))).page("/sessions"))
    assert len(_endable(page)) == 200
    page = parsed(PageBrowser(_one(*map(_session, range(320)))).page("/sessions"))
    assert len(_endable(page)) == 300
    assert "20 more are not shown" in page.text and "320 of 320 sessions" in page.text


def test_a_session_has_a_page_with_all_that_it_holds_and_nothing_else() -> None:
    collector = _one(
        _session(1),
        _session(2),
        pools=[
            {"session": "s1", "memory": "1:7", "kind": "ashmem", "bytes": 64, "seals": ["shrink"], "staged": True},
            {"session": "s2", "memory": "1:8", "kind": "mmap_fd", "bytes": 64},
        ],
        buffers=[{"session": "s1", "token": 5, "bytes": 32, "dimensions": [1, 0], "type": "TENSOR_INT32"}],
        executions=[{"id": "e7", "session": "s1", "what": "prepared model 3", "deadline_ns": -1}],
        fences=[{"session": "s1", "owed_by": "launch 12", "awaited_by": "launch 13", "is_owed": True}],
    )
    page = parsed(PageBrowser(collector).page("/sessions/npu/s1"))
    for expected in ("1:7", "shrink", "staged", "[1, ?]", "TENSOR_INT32", "prepared model 3", "launch 12", "launch 13"):
        assert expected in page.text
    assert "1:8" not in page.text
    assert "prepared model: 2 (4 KiB)" in page.text
    assert _endable(page) == ["s1"]


def test_memory_that_several_hold_is_shown_with_all_its_holders() -> None:
    theirs = admin_pb2.GetProcessResponse(
        name="framework", is_whole=True, pools=[admin_pb2.PoolState(memory="1:7", kind="arena", bytes=64, mapped=True)]
    )
    mine = _device(_session(1), pools=[{"session": "s1", "memory": "1:7", "kind": "ashmem", "bytes": 64}])
    collector = ScriptedCollector(device_process(process=mine), framework_process(theirs))
    text = parsed(PageBrowser(collector).page("/sessions/npu/s1")).text
    assert "framework, its own: mapped" in text and "npu, session s1: not mapped" in text


def test_a_session_of_the_framework_shows_its_models() -> None:
    said = admin_pb2.GetProcessResponse(name="framework", is_whole=True, sessions=[_session(1)])
    state = framework_state(
        session_models=[
            {"session": "s1", "name": "mine", "devices": ["npu"], "arena_bytes": 2048},
            {"session": "s2", "name": "theirs"},
        ]
    )
    text = PageBrowser(ScriptedCollector(framework_process(said), framework=state)).page("/sessions/framework/s1")
    assert "mine" in text and "theirs" not in text
    assert "/memory/arena?model=mine&amp;session=s1" in text


@pytest.mark.parametrize("path", ["/sessions/npu/s9", "/sessions/none/s1"])
def test_an_unknown_session_is_not_found(path: str) -> None:
    assert "has no session" in PageBrowser(_one(_session(1))).page(path, 404)


def test_a_session_is_ended() -> None:
    collector = _one(_session(1))
    browser = PageBrowser(collector)
    answer = browser.post("/sessions/end", "/sessions/npu/s1", {"process": "npu", "session": "s1"})
    assert collector.contacts.calls == [("npu", "end_session", ("s1",), {})]
    assert "npu/s1 has ended." in browser.page(answer.headers["location"])


def test_a_session_of_nnhal_can_be_ended_on_its_own_page_only_which_warns() -> None:
    page = parsed(PageBrowser(_one(_session(1, is_own=True))).page("/sessions/npu/s1"))
    assert "It belongs to this dashboard." in page.text
    assert _endable(page) == ["s1"]


def test_what_the_process_refuses_is_told() -> None:
    collector = _one(_session(1))
    collector.contacts.answers["npu", "end_session"] = TransportError("npu does not answer")
    browser = PageBrowser(collector)
    answer = browser.post("/sessions/end", "/sessions", {"process": "npu", "session": "s1"})
    assert "npu does not answer" in browser.page(answer.headers["location"])


def test_a_session_is_ended_by_a_form_of_the_page_and_by_an_admin_only(tmp_path: Path) -> None:
    collector = _one(_session(1))
    fields = {"process": "npu", "session": "s1"}
    browser = PageBrowser(collector)
    browser.page("/sessions")
    assert browser.send("/sessions/end", fields).status_code == 403
    viewer = PageBrowser(collector, read_tokens(token_file(tmp_path, viewer="view")))
    viewer.sign_in("viewer-token")
    assert viewer.post("/sessions/end", "/sessions", fields).status_code == 403
    assert collector.contacts.calls == []
    buttons = [button for button in parsed(viewer.page("/sessions/npu/s1")).all("button") if "End" in button.text]
    assert buttons and all("disabled" in button.attributes for button in buttons)


@pytest.mark.parametrize("attack", ["<script>alert(1)</script>", "'><img src=x onerror=alert(1)>", "‮evil"])
def test_what_clients_say_of_themselves_is_text(attack: str) -> None:
    session = _session(1, client_name=attack, command=attack, user=attack)
    collector = _one(session, pools=[{"session": "s1", "memory": "1:7", "purpose": attack, "kind": attack}])
    for path in ("/sessions", "/sessions/npu/s1", "/devices/npu", "/memory"):
        page = parsed(PageBrowser(collector).page(path))
        assert attack in page.text
        assert "img" not in page.counts
        sources = [script.attributes["src"] for script in page.all("script")]
        assert [source.partition("?")[0] for source in sources] == ["/static/live.js", "/static/time.js"]


def _endable(page: Page) -> list[str]:
    return [each.attributes["value"] for each in page.all("input") if each.attributes.get("name") == "session"]
