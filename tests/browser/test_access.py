"""Rights of visitors: roles, forms of other pages, foreign hosts, cookies and headers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import Visit, visiting
from tests.support.command import command
from tests.support.showcase import Showcase
from tests.support.tokens import token_file

pytestmark = pytest.mark.browser

_PAGES = ("/", "/devices", "/devices/cpu_ref", "/models", "/models/digits", "/memory", "/sessions", "/metrics", "/logs")
_CHANGES = ("/processes/drain", "/devices/start", "/models", "/models/digits/unload", "/sessions/end", "/logs/level")


@pytest.fixture(scope="module")
def guarded(testbed: Showcase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start one more dashboard of the testbed, which asks for tokens, and return its address."""
    tokens = token_file(tmp_path_factory.mktemp("tokens"), viewer="view", runner="infer", boss="admin")
    words = ["dashboard", "--directory", str(testbed.directory), "--tokens", str(tokens), "--port", "0"]
    with subprocess.Popen(command(words), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("dashboard: http"), line
            yield line.split()[1]
        finally:
            process.terminate()
            process.wait()


def test_a_browser_without_token_sees_nothing_but_the_sign_in(browser: Browser, guarded: str) -> None:
    with visiting(browser, guarded) as visit:
        for path in _PAGES:
            page = visit.open(path)
            expect(page).to_have_url(re.compile(r"/login\?"))
            expect(page.get_by_text("cpu_ref")).to_have_count(0)
        for path in (*_CHANGES, "/live?f=overview.figures"):
            assert httpx.post(guarded + path).status_code in (401, 405)


def test_a_wrong_token_is_refused_and_a_right_one_leads_to_the_page_that_was_wanted(
    browser: Browser, guarded: str
) -> None:
    with visiting(browser, guarded) as visit:
        page = visit.open("/models")
        visit.expected.append("status of 403 ")
        _send_token(page, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("not known")
        before = _cookie(visit)
        _send_token(page, "viewer-token")
        expect(page.get_by_role("heading", level=1)).to_have_text("Models")
        expect(page.get_by_text("viewer (view)")).to_be_visible()
        cookie = visit.context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert cookie["value"] != before
        page.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(re.compile("/login"))
        assert httpx.get(f"{guarded}/models", cookies={cookie["name"]: cookie["value"]}).status_code == 303


def test_a_viewer_sees_every_page_and_can_change_nothing(browser: Browser, guarded: str) -> None:
    with visiting(browser, guarded) as visit:
        page = _signed_in(visit, "viewer")
        disabled = 0
        for path in _PAGES:
            visit.go(page, path)
            can_change = page.locator("main form[method=post] button").evaluate_all(
                "(all) => all.map((each) => !each.disabled)"
            )
            assert not any(can_change), path
            disabled += len(can_change)
        assert disabled > len(_PAGES)
        token = page.locator("input[name=form_token]").first.input_value()
        with _with_cookie(guarded, visit) as client:
            for path in _CHANGES:
                answer = client.post(path, data={"form_token": token, "process": "cpu_ref", "driver": "cpu_ref"})
                assert answer.status_code == 403, path


@pytest.mark.parametrize(("name", "may_change"), [("runner", False), ("boss", True)])
def test_what_changes_something_is_for_admins(browser: Browser, guarded: str, name: str, may_change: bool) -> None:
    with visiting(browser, guarded) as visit:
        page = _signed_in(visit, name)
        visit.go(page, "/logs")
        expect(page.get_by_role("button", name="Change the level")).to_be_enabled(enabled=may_change)


def test_a_form_without_the_token_of_its_page_is_refused(testbed: Showcase) -> None:
    for path in _CHANGES:
        data = {"process": "cpu_ref", "driver": "cpu_ref", "level": "debug", "session": "s1"}
        for token in ("", "0" * 64):
            assert httpx.post(testbed.dashboard + path, data=data | {"form_token": token}).status_code == 403, path
    assert testbed.process("cpu_ref").state == testbed.process("cpu_ref").STATE_RUNNING


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "elsewhere.example"},
        {"host": "127.0.0.1.elsewhere.example:8003"},
    ],
    ids=str,
)
def test_requests_of_other_pages_are_refused(testbed: Showcase, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=testbed.dashboard) as client:
        token = _form_token(client.get("/logs").text)
        form = {"form_token": token, "process": "cpu_ref", "level": "warning"}
        assert client.post("/logs/level", data=form, headers=headers).status_code == 403
        assert client.get("/live?f=overview.figures", headers=headers).status_code == 403
        assert client.post("/logs/level", data=form).status_code == 303


def test_a_page_of_another_server_cannot_send_a_form_or_show_the_dashboard(browser: Browser, testbed: Showcase) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        form = f'<form method="post" action="{testbed.dashboard}/processes/stop"><input name="process" value="cpu_ref">'
        body = f'{form}<button>Win a prize</button></form><iframe src="{testbed.dashboard}/"></iframe>'
        page.route("**/prize", lambda route: route.fulfill(content_type="text/html", body=body))
        page.goto(testbed.dashboard.replace("127.0.0.1", "localhost.") + "/prize")
        assert "cpu_ref" not in page.frames[1].content()
        with page.expect_response("**/processes/stop") as answer:
            page.get_by_role("button").click()
        assert answer.value.status == 403
    assert testbed.process("cpu_ref").state == testbed.process("cpu_ref").STATE_RUNNING


@pytest.mark.parametrize("path", ["/", "/login", "/nothing", "/static/live.js", "/devices/unheard_of"])
def test_every_answer_says_what_its_page_may_load(testbed: Showcase, path: str) -> None:
    answer = httpx.get(testbed.dashboard + path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def _signed_in(visit: Visit, name: str) -> Page:
    page = visit.open("/login")
    _send_token(page, f"{name}-token")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page


def _send_token(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def _cookie(visit: Visit) -> str:
    return str(visit.context.cookies()[0]["value"])


def _with_cookie(address: str, visit: Visit) -> httpx.Client:
    cookies = {str(each["name"]): str(each["value"]) for each in visit.context.cookies()}
    return httpx.Client(base_url=address, cookies=cookies)


def _form_token(html: str) -> str:
    found = re.search(r"name='form_token' value='([^']*)'", html)
    assert found is not None
    return found[1]
