"""The page of clients whose calls were refused."""

from __future__ import annotations

from tests.support.dashboard import PageBrowser, ScriptedCollector, framework_process, framework_state

ATTACK = "<script>alert(1)</script>"


def test_refused_calls_are_shown_by_reason_and_by_client_the_most_first() -> None:
    refused = [
        {"client": "10.0.0.7", "reason": "unknown model", "count": 3, "last_ns": 1_800_000_005 * 10**9},
        {"client": "10.0.0.8", "reason": "unknown model", "count": 40, "last_ns": 1_800_000_005 * 10**9},
        {"client": ATTACK, "reason": "no token", "count": 5, "last_ns": 1_800_000_005 * 10**9},
    ]
    text = PageBrowser(ScriptedCollector(framework_process(), framework=framework_state(refused=refused))).page(
        "/clients"
    )
    assert "<dt>Unknown model</dt><dd>43</dd>" in text
    assert text.index("10.0.0.8") < text.index("&lt;script&gt;") < text.index("10.0.0.7")
    assert "2027-01-15" in text
    assert ATTACK not in text


def test_without_refusals_and_without_a_framework_the_page_says_so() -> None:
    pages = PageBrowser(ScriptedCollector(framework_process(), framework=framework_state()))
    assert "No call was refused" in pages.page("/clients")
    assert "are not known" in PageBrowser(ScriptedCollector()).page("/clients")
