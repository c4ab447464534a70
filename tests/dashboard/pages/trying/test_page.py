"""The pages on which models are tried, over a framework and devices: what was typed stays, no session does."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest

from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.settings import DashboardSettings
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.dashboard import PageBrowser, ScriptedCollector
from tests.support.processes import WARM
from tests.support.waiting import wait_until

DIGITS = Path(__file__).parents[4] / "tools/nnhal_tools/demo/data/digits.onnx"
_USUAL = {"way.0": "random", "seconds": "30", "runs": "2"}


@pytest.fixture(scope="module")
def browser() -> Iterator[PageBrowser]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        repository = Path(directory) / "models"
        (repository / "digits/1").mkdir(parents=True)
        copyfile(DIGITS, repository / "digits/1/model.onnx")
        devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref"))
        options: dict[str, Any] = {"model_repository": [str(repository)], "http_port": 0, "grpc_port": 0}
        testbed = Testbed(
            Topology(device=devices, framework=options | {"metrics_port": 0}), Path(directory), zygote=WARM
        )
        with controlled(testbed), Collector(DashboardSettings(directory=Path(directory))) as collector:
            browser = PageBrowser(collector)
            wait_until(lambda: "digits" in browser.page("/try"), "the model to be listed")
            yield browser


def tried(browser: PageBrowser, status: int = 200, files: Any = None, **typed: str) -> str:
    fields = _USUAL | {name.replace("_", "."): text for name, text in typed.items()}
    answer = browser.post("/try/digits", "/try/digits", fields, files=files or {"npy.0": ("", b"")})
    assert answer.status_code == status, answer.text
    return answer.text


def test_the_models_are_listed_and_the_form_has_the_inputs(browser: PageBrowser) -> None:
    page = browser.page("/try/digits")
    assert browser.get("/try?model=digits").headers["location"] == "/try/digits"
    for expected in ("image", "[1, 1, 8, 8]", 'value="drawing" checked'):
        assert expected in page


def test_a_run_shows_outputs_times_and_devices(browser: PageBrowser) -> None:
    page = tried(browser)
    for expected in ("probabilities", "[1, 10]", "The largest values", "median of 2 runs", "cpu_acc", "<svg"):
        assert expected in page


def test_what_is_wrong_is_said_and_what_was_typed_is_still_there(browser: PageBrowser) -> None:
    page = tried(browser, 422, way_0="json", json_0="[1, 2, 3]", seconds="12")
    assert "image: got dimensions [3], expected [1, 1, 8, 8]" in page
    assert "[1, 2, 3]</textarea>" in page and 'name="seconds" value="12"' in page
    assert "the deadline is &#39;0&#39;" in tried(browser, 422, seconds="0")


def test_a_chosen_file_is_kept_in_the_form(browser: PageBrowser) -> None:
    file = BytesIO()
    np.save(file, np.zeros((1, 1, 8, 8), np.float32))
    page = tried(browser, files={"npy.0": ("zeros.npy", file.getvalue())}, way_0="npy", runs="1")
    found = re.search(r'name="npy.0.kept" value="([^"]+)"', page)
    assert found is not None and "zeros.npy" in page
    again = tried(browser, way_0="npy", npy_0_kept=found[1], npy_0_name="zeros.npy")
    assert "The largest values" in again


def test_a_deadline_that_is_missed_is_said(browser: PageBrowser) -> None:
    assert "The deadline of 0.001 s is missed" in tried(browser, 504, seconds="0.001", runs="100")


def test_no_session_is_left(browser: PageBrowser) -> None:
    tried(browser)

    def models() -> int:
        framework = browser.collector.refresh().framework
        return -1 if framework is None else len(framework.session_models)

    wait_until(lambda: models() == 0, "the models of trials to be gone")


def test_an_unknown_model_is_an_error_and_without_a_framework_the_page_says_what_to_do(browser: PageBrowser) -> None:
    assert browser.get("/try/nothing").status_code == 502
    assert "nnhal up" in PageBrowser(ScriptedCollector()).page("/try")
