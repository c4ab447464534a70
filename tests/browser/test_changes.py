"""Changes by an operator with the browser, seen from outside."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from nnhal.arrays import Array
from tests.support.browsing import Visit
from tests.support.repositories import onnx_file
from tests.support.showcase import Showcase

pytestmark = pytest.mark.browser

_MILLISECONDS = 60_000
"""A plan may take long to be prepared on a machine that others use too."""


def test_an_uploaded_model_answers_requests(visit: Visit, testbed: Showcase) -> None:
    page = visit.open("/models")
    page.get_by_label("File (.onnx or .tflite)").set_input_files(
        {"name": "tanh.onnx", "mimeType": "application/octet-stream", "buffer": onnx_file(shape=(1, 8))}
    )
    page.get_by_label("Name (by default the file's)").fill("uploaded")
    page.get_by_role("button", name="Upload and load").click()
    expect(page.locator(".notice.done")).to_contain_text("uploaded is loaded")
    expect(page.get_by_role("heading", level=1)).to_contain_text("uploaded")
    given = np.linspace(-1, 1, 8, dtype=np.float32)
    answer = _infer(testbed, "uploaded", given.reshape(1, 8))
    np.testing.assert_allclose(answer["outputs"][0]["data"], np.tanh(given), atol=1e-5)


def test_what_is_no_model_is_refused_with_the_reason(visit: Visit) -> None:
    page = visit.open("/models")
    page.get_by_label("File (.onnx or .tflite)").set_input_files(
        {"name": "bad.onnx", "mimeType": "application/octet-stream", "buffer": b"not a model"}
    )
    page.get_by_label("Name (by default the file's)").fill("bad")
    page.get_by_role("button", name="Upload and load").click()
    expect(page.locator(".notice.failed")).to_contain_text("bad")


def test_a_pin_changes_where_a_model_runs(visit: Visit, testbed: Showcase) -> None:
    page = visit.open("/models/digits/plan")
    assert "cpu_ref" not in _devices(testbed)
    count = page.locator("input[name=at]").count()
    page.get_by_label("From operation").fill("0")
    page.get_by_label("To", exact=True).fill(str(count - 1))
    page.locator("#pinning select[name=device]").select_option("cpu_ref")
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_role("heading", name="A plan that is tried")).to_be_visible()
    assert "cpu_ref" not in _devices(testbed)
    visit.check(page)
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".notice.done")).to_be_visible()
    assert _devices(testbed) == {"cpu_ref"}


def test_a_bad_plan_is_undone_in_four_clicks(visit: Visit, testbed: Showcase) -> None:
    visit.open("/models/digits_int8/plan")
    before = _devices(testbed, "digits_int8")
    bad = visit.open("/models/digits_int8/plan?pin=op:CONV_2D%3Dcpu_ref")
    bad.get_by_role("button", name="Apply").click()
    expect(bad.locator(".notice.done")).to_be_visible(timeout=_MILLISECONDS)
    assert _devices(testbed, "digits_int8") != before
    page = visit.open("/models")
    page.get_by_role("link", name="digits_int8", exact=True).first.click()
    page.get_by_role("link", name="Plan and graph").click()
    page.get_by_role("link", name="Run this one again").click()
    expect(page.get_by_text("every operation runs where it ran")).to_be_visible()
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".notice.done")).to_be_visible(timeout=_MILLISECONDS)
    assert _devices(testbed, "digits_int8") == before


def test_who_refused_an_operation_is_told_beside_its_graph(visit: Visit) -> None:
    page = visit.open("/models")
    page.get_by_role("link", name="digits", exact=True).first.click()
    page.get_by_role("link", name="Plan and graph").click()
    expect(page.locator(".refusals")).to_contain_text("ethos_u refused")
    expect(page.locator(".refusals")).to_contain_text("float32")


def _devices(testbed: Showcase, model: str = "digits") -> set[str]:
    """The devices that a request to a model runs on, by what its answer says."""
    answer = _infer(testbed, model, np.zeros((1, 1, 8, 8), np.float32))
    return {each.partition(":")[0] for each in answer["parameters"]["nnhal_devices"].split(",")}


def _infer(testbed: Showcase, model: str, given: Array) -> Any:
    (wanted,) = httpx.get(f"http://{testbed.http}/v2/models/{model}").json()["inputs"]
    tensor = {"name": wanted["name"], "shape": given.shape, "datatype": "FP32", "data": given.ravel().tolist()}
    answer = httpx.post(f"http://{testbed.http}/v2/models/{model}/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    return answer.json()
