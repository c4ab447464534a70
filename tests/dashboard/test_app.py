"""All addresses of the dashboard together: who may do what, and what every answer has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute, APIRouter
from starlette.routing import BaseRoute

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_dashboard.access.gate import LONGEST_FORM
from nnhal_dashboard.access.visitors import cookie_of
from nnhal_dashboard.app import PAGES
from nnhal_dashboard.web import signing_in, static
from nnhal_hosting.access import Tokens, read_tokens
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
)
from tests.support.tokens import token_file

FROM_A_LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
NAMES = {"process": "npu", "command": "kill", "name": "m", "session": "s1", "number": "1", "index": "1", "version": "1"}
FIELDS = {"process": "npu", "session": "s1", "name": "m", "pin": "all=npu"}
OWN = {"/login", "/logout"}
"""What anybody may send: it changes nothing but who the browser is."""
TAKING_FILES = {"/models", "/try/{model}"}
"""What takes more than a form, of those who may send it."""
READS = {"served_model", "explain", "plan", "recording", "figures", "log_lines", "logs", "runs"}
"""What pages ask processes for."""


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        inner = getattr(route, "original_router", None)
        if isinstance(inner, APIRouter):
            yield from routes_of(inner.routes)


ROUTERS = (*(page.router for page in PAGES), signing_in.router, static.router)
ROUTES = [route for router in ROUTERS for route in routes_of(router.routes)]
CHANGING = sorted({route.path for route in ROUTES if (route.methods or set()) - {"GET", "HEAD"}})
SHOWING = sorted({route.path for route in ROUTES if "GET" in (route.methods or ())})


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)(?::path)?\}", lambda found: NAMES.get(found[1], "m"), path)


@pytest.fixture
def collector() -> ScriptedCollector:
    scripted = ScriptedCollector(device_process(), framework_process(), framework=framework_state())
    scripted.contacts.answers.update(
        {
            ("framework", "explain"): HalError(ErrorStatus.INVALID_ARGUMENT, "no such model"),
            ("framework", "recording"): framework_admin_pb2.GetRecordingResponse(),
            ("framework", "served_model"): HalError(ErrorStatus.INVALID_ARGUMENT, "no such model"),
            ("framework", "log_lines"): admin_pb2.GetLogLinesResponse(),
            ("npu", "log_lines"): admin_pb2.GetLogLinesResponse(),
        }
    )
    return scripted


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return read_tokens(token_file(tmp_path, eye="view", ci="infer"))


def test_all_addresses_are_known_here() -> None:
    assert {"/processes/{command}", "/models", "/recordings", "/logs/level", "/login"} <= set(CHANGING)
    assert {"/", "/logs.txt", "/static/{name}", "/models/{name}/plan"} <= set(SHOWING)


@pytest.mark.parametrize("path", sorted(set(CHANGING) | OWN))
def test_a_form_of_another_site_does_nothing(path: str, collector: ScriptedCollector) -> None:
    browser = PageBrowser(collector)
    for fields in ({}, {"form_token": "0" * 64}, {"form_token": ""}, {"form_token": "\N{SNOWMAN}"}):
        assert browser.send(filled(path), {**FIELDS, **fields}).status_code == 403, fields
    assert not collector.contacts.calls


@pytest.mark.parametrize("path", sorted(set(CHANGING) - OWN))
def test_who_may_only_look_changes_nothing(path: str, collector: ScriptedCollector, tokens: Tokens) -> None:
    browser = PageBrowser(collector, tokens)
    assert browser.send(filled(path), FIELDS).status_code == 401
    browser.sign_in("eye-token")
    collector.contacts.calls.clear()
    assert browser.post(filled(path), "/", FIELDS).status_code == 403
    assert not collector.contacts.calls


@pytest.mark.parametrize("path", SHOWING)
def test_looking_changes_nothing(path: str, collector: ScriptedCollector) -> None:
    browser = PageBrowser(collector)
    for query in ("", "?pin=all%3Dnpu&model=m&process=npu&session=s1&a=model:m&b=model:m&device=npu&at=0"):
        browser.get(filled(path) + query)
    assert {method for _, method, _, _ in collector.contacts.calls} <= READS


@pytest.mark.parametrize("path", SHOWING)
def test_nothing_is_shown_to_whom_nobody_knows(path: str, collector: ScriptedCollector, tokens: Tokens) -> None:
    answer = PageBrowser(collector, tokens).get(filled(path))
    assert answer.status_code == 303 or path in ("/login", "/static/{name}", "/favicon.ico")
    assert not collector.contacts.calls


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


@pytest.mark.parametrize("path", [*SHOWING, "/no/such/page", "/live", "/metrics?minutes=x", "/recordings/0"])
def test_every_answer_is_kept_apart_from_other_sites(path: str, collector: ScriptedCollector) -> None:
    headers = PageBrowser(collector).get(filled(path)).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    cookie = headers.get("set-cookie", "")
    assert not cookie or ("HttpOnly" in cookie and "SameSite=strict" in cookie)
    assert not cookie or headers["cache-control"] == "no-store"  # a cache must not hand it to another browser


@pytest.mark.parametrize("path", CHANGING)
def test_no_more_is_read_than_a_form_may_have(path: str, collector: ScriptedCollector, tokens: Tokens) -> None:
    browser = PageBrowser(collector, tokens)
    browser.sign_in("eye-token")
    most = "x" * (LONGEST_FORM // 2 + 1)
    refused = 403 if path in TAKING_FILES else 413
    assert browser.send(filled(path), {"a": most, "b": most}).status_code == refused
    assert browser.send(filled(path), {}, files={"file": ("name", 2 * most.encode())}).status_code == refused


def test_a_page_that_asks_to_sign_in_leads_nowhere_else(collector: ScriptedCollector, tokens: Tokens) -> None:
    for to in ("//other", "/\\other", "https://other", "/\t/other", "/\n/other", "javascript:alert(1)", "\x00//other"):
        browser = PageBrowser(collector, tokens)
        answer = browser.post("/login", "/login", {"token": "eye-token", "to": to})
        assert re.fullmatch(r"/(%09/other|%0A/other)?", answer.headers["location"]), to


def test_signing_in_gives_another_cookie(collector: ScriptedCollector, tokens: Tokens) -> None:
    browser = PageBrowser(collector, tokens)
    before = browser.get("/login").cookies["nnhal_dashboard"]
    after = browser.post("/login", "/login", {"token": "eye-token"}).cookies["nnhal_dashboard"]
    assert before != after
    assert browser.get("/").status_code == 200


def test_a_page_that_fails_is_a_page_too(collector: ScriptedCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: ScriptedCollector, runs: bool = False) -> None:
        raise RuntimeError("<b>a secret</b>")

    monkeypatch.setattr(ScriptedCollector, "look", fail)
    transport = httpx.ASGITransport(PageBrowser(collector).app, raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"accept": "text/html"})
    answer = asyncio.run(client.get("/"))
    assert answer.status_code == 500
    assert "RuntimeError" in answer.text and "Go to the overview" in answer.text and "secret" not in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
