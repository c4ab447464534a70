"""The list of models."""

from __future__ import annotations

from nnhal.v1 import framework_admin_pb2 as wire
from tests.dashboard.pages.models.scripted_models import browser_of, served
from tests.support.dashboard import PageBrowser, ScriptedCollector, framework_process, framework_state


def test_models_are_listed_with_state_devices_and_counts() -> None:
    counts = wire.ModelCounts(requests=1234, failures=5)
    page = browser_of(served(devices=["npu", "cpu"], counts=counts, queued=3, missing=["gpu"])).page("/models")
    for text in ("/models/net/versions/1", "READY", "npu, cpu", "without gpu", "1,234", "/models/net/plan?version=1"):
        assert text in page, text


def test_a_model_whose_requests_wait_is_not_shown_as_one_that_works() -> None:
    page = browser_of(served(oldest_request_ns=12 * 10**9)).page("/models")
    assert '<span class="state waiting">READY, requests wait</span>' in page
    assert '<span class="state READY">' not in page


def test_a_model_that_failed_says_why_and_can_be_loaded() -> None:
    page = browser_of(served(state="UNAVAILABLE", reason="no such operation <b>")).page("/models")
    assert "no such operation &lt;b&gt;" in page
    assert "/models/net/load" in page
    assert "/models/net/unload" not in page


def test_models_of_sessions_lead_to_their_sessions_and_plans() -> None:
    model = wire.SessionModelState(session="s3", name="mine/too", devices=["npu"], bindings=2)
    page = browser_of(session_models=[model]).page("/models")
    assert "/sessions/framework/s3/models/mine%2Ftoo/plan" in page


def test_an_empty_repository_says_what_to_do() -> None:
    page = browser_of().page("/models")
    assert "The repository has no models." in page
    assert "/models, or upload one" in page


def test_a_framework_without_a_repository_says_how_to_get_one() -> None:
    browser = PageBrowser(ScriptedCollector(framework_process(), framework=framework_state()))
    assert "--model-repository" in browser.page("/models")


def test_without_a_framework_the_page_says_so() -> None:
    assert "start one with &#39;nnhal up&#39;" in PageBrowser(ScriptedCollector()).page("/models")


def test_a_silent_framework_leaves_its_last_word() -> None:
    state = framework_state(models=[served()])
    collector = ScriptedCollector(framework_process(silence="it hangs"), framework=state)
    page = PageBrowser(collector).page("/models")
    assert "it hangs" in page
    assert "net" in page
