"""The page of a model."""

from __future__ import annotations

import json

from nnhal.errors import invalid_argument
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from tests.dashboard.pages.models.scripted_models import browser_of, calls_of, script_of, served
from tests.support.dashboard import PageBrowser

STATISTICS = {
    "model_stats": [
        {"name": "net", "inference_stats": {"success": {"count": 4, "ns": 8000}, "fail": {"count": 0, "ns": 0}}}
    ]
}
CONFIG = {
    "name": "net",
    "max_batch_size": 8,
    "input": [{"name": "x", "dims": [3, 4], "optional": False}],
    "instance_group": [{"kind": "KIND_AUTO", "gpus": []}],
}


def described(browser: PageBrowser) -> PageBrowser:
    tensor = framework_pb2.TensorInfo(name="x<b>", dimensions=[0, 4], element_type="float32")
    script_of(browser).answers["framework", "served_model"] = wire.GetServedModelResponse(
        version="1",
        config_json=json.dumps(CONFIG),
        statistics_json=json.dumps(STATISTICS),
        info=framework_pb2.ModelInfo(name="net", inputs=[tensor], steps=["npu"]),
        file="/models/net/1/model.onnx",
        placement="index:1=cpu",
    )
    return browser


def test_a_model_is_described() -> None:
    page = described(browser_of(served())).page("/models/net")
    for text in (
        "x&lt;b&gt;",
        "[?, 4]",
        "max_batch_size",
        "input[0].dims",
        "3, 4",
        "index:1=cpu",
        "model.onnx",
        "2 µs",
    ):
        assert text in page, text


def test_settings_that_say_nothing_are_left_out() -> None:
    page = described(browser_of(served())).page("/models/net")
    assert "input[0].optional" not in page
    assert "instance_group[0]" not in page


def test_a_version_has_a_page() -> None:
    browser = described(browser_of(served()))
    assert "net 1" in browser.page("/models/net/versions/1")
    assert calls_of(browser, "served_model") == [("net", "1")]


def test_a_model_that_is_not_loaded_says_why_and_can_be_loaded() -> None:
    browser = browser_of(served(state="UNAVAILABLE", reason="wrong file"))
    script_of(browser).answers["framework", "served_model"] = lambda *_: invalid_argument("it is not ready")
    page = browser.page("/models/net")
    assert "wrong file" in page
    assert "it is not ready" in page
    assert "/models/net/load" in page


def test_an_unknown_model_or_version_is_not_found() -> None:
    browser = browser_of(served())
    assert "&#39;other&#39;" in browser.page("/models/other", 404)
    browser.page("/models/net/versions/7", 404)


def test_its_name_may_be_anything() -> None:
    name = "<script>alert(1)<\\script> ?#&%2F"
    browser = described(browser_of(served(name)))
    page = browser.page("/models/%3Cscript%3Ealert(1)%3C%5Cscript%3E%20%3F%23&%252F")
    assert "<script>alert" not in page
    assert calls_of(browser, "served_model") == [(name, "")]
