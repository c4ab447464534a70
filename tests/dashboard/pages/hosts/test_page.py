"""The page of all hosts, and what this host tells others."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_dashboard.access.visitors import cookie_of
from nnhal_dashboard.monitoring.hosts import SUMMARY, HostSummary
from nnhal_hosting.access import Tokens, read_tokens
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process, framework_process, framework_state
from tests.support.tokens import token_file

FROM_A_LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture
def collector() -> ScriptedCollector:
    return ScriptedCollector(device_process(), framework_process(), framework=framework_state())


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return read_tokens(token_file(tmp_path, eye="view"))


def test_one_host_is_shown_alone_and_says_how_others_are_added(collector: ScriptedCollector) -> None:
    page = PageBrowser(collector).page("/hosts")
    assert "1 of 1" in page and "--hosts FILE" in page
    assert 'href="/hosts"' not in page  # in the navigation


def test_a_host_that_does_not_answer_comes_first_with_the_cause(collector: ScriptedCollector, tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text('name = "red"\n[[host]]\nname = "blue <b>"\nurl = "http://127.0.0.1:1"\n')
    collector.watch_hosts(path)
    page = PageBrowser(collector).page("/hosts")
    assert "1 of 2" in page and 'href="/hosts"' in page
    assert page.index("blue &lt;b&gt;") < page.index(">red<")
    assert "It cannot be reached: Connection refused" in page and 'href="http://127.0.0.1:1"' in page
    collector.hosts.close()


def test_a_program_is_told_with_a_token_and_leaves_no_cookie(collector: ScriptedCollector, tokens: Tokens) -> None:
    browser = PageBrowser(collector, tokens)
    answer = browser.get(SUMMARY, headers={"authorization": "Bearer eye-token"})
    assert answer.status_code == 200 and not answer.cookies
    assert HostSummary.model_validate_json(answer.content).devices_up == 1
    assert browser.get(SUMMARY, headers={"authorization": "Bearer other"}).status_code == 401


def test_a_browser_from_another_site_comes_again_with_its_cookie(collector: ScriptedCollector, tokens: Tokens) -> None:
    browser = PageBrowser(collector, tokens)
    answer = browser.get("/devices", headers=FROM_A_LINK)
    assert answer.status_code == 200 and 'http-equiv="refresh"' in answer.text
    assert not answer.cookies  # a new one would sign it out


@pytest.mark.parametrize(
    ("host", "cookie"),
    [
        ("localhost", "nnhal_dashboard"),
        ("localhost:8003", "nnhal_dashboard_8003"),
        ("[::1]:80", "nnhal_dashboard_80"),
        ("[::1]", "nnhal_dashboard"),
        ("a:b", "nnhal_dashboard"),
    ],
)
def test_dashboards_at_two_ports_of_one_name_have_cookies_of_their_own(host: str, cookie: str) -> None:
    assert cookie_of(host) == cookie
