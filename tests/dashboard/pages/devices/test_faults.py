"""Faults on the page of a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal.remote.faults import FaultState
from nnhal_hosting.access import read_tokens
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process
from tests.support.tokens import token_file

DEVICE = "/devices/npu"
LOST = FaultState("lost", {"what": "error", "name": "lost", "operation": "<CONV>"}, 7, 3)


@pytest.fixture
def browser() -> PageBrowser:
    browser = PageBrowser(ScriptedCollector(device_process()))
    browser.script.faults["npu"] = [LOST]
    return browser


def test_a_device_that_takes_none_says_so() -> None:
    page = PageBrowser(ScriptedCollector(device_process())).page(DEVICE)
    assert "It takes no faults." in page
    assert "/faults/set" not in page


def test_what_was_set_is_seen_with_how_often_it_happened(browser: PageBrowser) -> None:
    page = browser.page(DEVICE)
    assert "lost" in page
    assert "operation = &lt;CONV&gt;" in page
    assert re.findall('data-label="(Calls that met it|Happened)">([0-9]+)<', page) == [
        ("Calls that met it", "7"),
        ("Happened", "3"),
    ]


def test_what_a_command_has_set_is_seen_while_the_page_is_open(browser: PageBrowser) -> None:
    browser.script.faults["npu"] = []
    assert "It takes faults, and has none." in browser.page(DEVICE)
    watch, (npu,) = browser.collector.faults, browser.collector.snapshot.devices
    browser.script.faults["npu"] = [LOST]
    watch.of(npu)  # a part that is shown asks meanwhile, for the next time
    told = watch.of(npu)
    assert told is not None
    assert list(told.states) == [LOST]


def test_a_process_that_takes_none_is_asked_once(browser: PageBrowser) -> None:
    del browser.script.faults["npu"]
    watch, (npu,) = browser.collector.faults, browser.collector.snapshot.devices
    assert watch.of(npu) is None
    browser.script.faults["npu"] = [LOST]
    told = [watch.of(npu), watch.of(npu)]
    assert all(each is not None and "it has no FaultService" in each.refusal for each in told)


def test_a_fault_is_set_with_the_keys_of_a_file(browser: PageBrowser) -> None:
    fields = {"process": "npu", "what": "delay", "operation": "CONV_2D", "times": "2", "more": "ms = 20\nname = 'slow'"}
    answer = browser.post("/faults/set", DEVICE, fields)
    assert answer.headers["location"] == f"{DEVICE}#faults"
    fault = {"what": "delay", "operation": "CONV_2D", "times": 2, "ms": 20, "name": "slow"}
    assert browser.script.calls == [("npu", "set_faults", (fault,), {})]
    assert "npu has the fault slow." in browser.page(DEVICE)


@pytest.mark.parametrize("fields", [{"times": "often"}, {"more": "ms ="}])
def test_what_is_no_fault_says_why(browser: PageBrowser, fields: dict[str, str]) -> None:
    browser.post("/faults/set", DEVICE, {"process": "npu", "what": "error"} | fields)
    assert browser.script.calls == []
    assert "That failed." in browser.page(DEVICE)


def test_one_fault_is_cleared_or_all(browser: PageBrowser) -> None:
    browser.post("/faults/clear", DEVICE, {"process": "npu", "name": "lost"})
    browser.post("/faults/clear", DEVICE, {"process": "npu"})
    assert [arguments for _, _, arguments, _ in browser.script.calls] == [(("lost",),), ((),)]


@pytest.mark.parametrize("path", ["/faults/set", "/faults/clear"])
def test_only_an_admin_may_change_faults(path: str, tmp_path: Path) -> None:
    tokens = read_tokens(token_file(tmp_path, infer="infer"))
    browser = PageBrowser(ScriptedCollector(device_process()), tokens)
    browser.script.faults["npu"] = [LOST]
    browser.sign_in("infer-token")
    assert browser.post(path, DEVICE, {"process": "npu", "what": "error"}).status_code == 403
    assert browser.script.calls == []
