"""The pages of models over a real framework and real devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from nnhal_client import connect
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.settings import DashboardSettings
from tests.support.dashboard import PageBrowser
from tests.support.model_server import Served, devices, model_server
from tests.support.operated import model_state, operator_of
from tests.support.repositories import onnx_file, write
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "net", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with devices() as over, model_server(over, repository, "--model-control-mode", "none") as framework:
        yield framework


@pytest.fixture(scope="module")
def browser(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBrowser]:
    settings = DashboardSettings(directory=tmp_path_factory.mktemp("none"), framework=served.endpoint.directory)
    with ExitStack() as stack:
        collector = stack.enter_context(Collector(settings, served.child.admin_key))
        wait_until(lambda: collector.refresh().framework is not None, "the framework is known")
        yield PageBrowser(collector)


def test_the_plan_of_a_served_model_is_shown(browser: PageBrowser) -> None:
    assert "READY" in browser.page("/models")
    assert "model.onnx" in browser.page("/models/net")
    page = browser.page("/models/net/plan?open=all&node=0")
    assert "TANH" in page
    assert "could run it" in page


def test_a_pin_is_tried_and_applied(browser: PageBrowser, served: Served) -> None:
    trial = browser.get("/models/net/plan/pin?at=0&device=cpu_ref").headers["location"]
    assert "1 operation moved" in browser.page(trial)
    browser.post("/models/net/plan", trial, {"pin": "index:0=cpu_ref"})
    assert "runs by the new plan" in browser.page("/models/net/plan")
    with operator_of(served) as admin:
        assert model_state(admin, "net").devices == ["cpu_ref"]
    assert "Run this one again" in browser.page("/models/net/plan")


def test_an_uploaded_file_is_served_and_unloaded(browser: PageBrowser) -> None:
    browser.post("/models", "/models", {"name": "fresh <b>"}, files={"file": ("a.onnx", onnx_file("Relu"))})
    page = browser.page("/models/fresh%20%3Cb%3E")
    assert "is loaded" in page
    assert "RELU" in browser.page("/models/fresh%20%3Cb%3E/plan?open=all")
    browser.post("/models/fresh%20%3Cb%3E/unload", "/models")
    assert "is unloaded" in browser.page("/models")
    browser.page("/models/fresh%20%3Cb%3E/plan", 409)


def test_a_file_that_is_no_model_leaves_nothing(browser: PageBrowser) -> None:
    browser.post("/models", "/models", {"name": "broken"}, files={"file": ("a.onnx", b"no model")})
    assert "That failed." in browser.page("/models")
    browser.page("/models/broken", 404)


def test_the_model_of_a_session_is_shown(browser: PageBrowser, served: Served, tmp_path: Path) -> None:
    file = tmp_path / "mine.onnx"
    file.write_bytes(onnx_file("Sigmoid", (1, 8)))
    with connect(served.endpoint.directory) as session:
        session.load(file)
        framework = browser.collector.refresh().framework
        assert framework is not None
        (model,) = framework.session_models
        path = f"/sessions/framework/{model.session}/models/{quote(model.name, safe='')}/plan"
        assert path in browser.page("/models")
        assert "LOGISTIC" in browser.page(f"{path}?open=all")
        assert "1 operation moved" in browser.page(f"{path}?pin=index:0%3Dcpu_ref")
    wait_until(lambda: path not in browser.page("/models"), "the session has ended")
