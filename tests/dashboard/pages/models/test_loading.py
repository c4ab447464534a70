"""Loading, unloading and uploading."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from nnhal.errors import invalid_argument
from nnhal_dashboard.pages.models.loading import config_json
from nnhal_hosting.access import read_tokens
from tests.dashboard.pages.models.scripted_models import browser_of, calls_of, script_of, served
from tests.support.dashboard import NO_FORM_TOKEN, PageBrowser
from tests.support.tokens import token_file


@pytest.mark.parametrize("action", ["load", "unload"])
def test_a_model_is_loaded_and_unloaded(action: str) -> None:
    browser = browser_of(served("a name"))
    answer = browser.post(f"/models/a%20name/{action}", "/models")
    assert answer.headers["location"] == "/models/a%20name"
    (arguments,) = calls_of(browser, action)
    assert arguments[0] == "a name"


def test_a_refusal_of_the_framework_is_told() -> None:
    browser = browser_of(served())
    script_of(browser).answers["framework", "unload"] = lambda _: invalid_argument("it is <held>")
    browser.post("/models/net/unload", "/models")
    assert "it is &lt;held&gt;" in browser.page("/models")


def upload(browser: PageBrowser, file: tuple[str, bytes], config: tuple[str, bytes] = ("", b"")) -> httpx.Response:
    files = {"file": file} | ({"config": config} if config[0] else {})
    return browser.post("/models", "/models", {"name": "fresh", "version": "2"}, files=files)


def test_a_file_is_loaded_under_its_name_and_version() -> None:
    browser = browser_of()
    answer = upload(browser, ("My Net.ONNX", b"graph"))
    assert answer.headers["location"] == "/models/fresh"
    assert calls_of(browser, "load") == [("fresh", "", {"2/model.onnx": b"graph"})]


def test_a_file_is_loaded_under_its_own_name_if_no_other_is_given() -> None:
    browser = browser_of()
    answer = browser.post("/models", "/models", {"version": "1"}, files={"file": ("My Net.onnx", b"graph")})
    assert answer.headers["location"] == "/models/My%20Net"
    assert calls_of(browser, "load") == [("My Net", "", {"1/model.onnx": b"graph"})]


def test_a_configuration_of_protobuf_text_is_given_as_json() -> None:
    browser = browser_of()
    upload(browser, ("net.tflite", b"graph"), ("config.pbtxt", b"max_batch_size: 8\nparameters { key: 'a' }"))
    ((_, config, files),) = calls_of(browser, "load")
    assert json.loads(config)["max_batch_size"] == 8
    assert list(files) == ["2/model.tflite"]


@pytest.mark.parametrize(
    ("file", "config", "told"),
    [
        (("net.exe", b"x"), ("", b""), "expected a name that ends with .onnx or .tflite"),
        (("net.onnx", b""), ("", b""), "is empty"),
        (("net.onnx", b"x"), ("config.txt", b"x"), "expected a name that ends with .pbtxt or .json"),
        (("net.onnx", b"x"), ("config.pbtxt", b"max_batch: 8"), "no field named"),
        (("net.onnx", b"x"), ("config.json", b"{"), "config.json"),
        (("net.onnx", b"x"), ("config.pbtxt", b"\xff"), "config.pbtxt"),
    ],
)
def test_wrong_files_are_refused_with_a_reason(file: tuple[str, bytes], config: tuple[str, bytes], told: str) -> None:
    browser = browser_of()
    assert upload(browser, file, config).headers["location"] == "/models"
    assert told in browser.page("/models")
    assert not calls_of(browser, "load")


def test_what_the_framework_says_of_a_file_is_told() -> None:
    browser = browser_of()
    script_of(browser).answers["framework", "load"] = lambda *_: invalid_argument("no graph in <file>")
    assert upload(browser, ("net.onnx", b"x")).headers["location"] == "/models"
    assert "no graph in &lt;file&gt;" in browser.page("/models")


def test_an_upload_is_limited() -> None:
    browser = browser_of(upload_bytes=1000)
    answer = upload(browser, ("net.onnx", bytes(100_000)))
    assert answer.status_code == 413
    assert "1000 B" in answer.text
    assert not calls_of(browser, "load")


def test_an_upload_needs_the_form_token() -> None:
    browser = browser_of()
    fields = {"form_token": NO_FORM_TOKEN, "name": "net"}
    assert browser.send("/models", fields, files={"file": ("net.onnx", b"x")}).status_code == 403
    assert not calls_of(browser, "load")


@pytest.mark.parametrize("path", ["/models", "/models/net/load", "/models/net/unload", "/models/net/plan"])
@pytest.mark.parametrize("role", ["view", "infer"])
def test_who_is_no_admin_changes_nothing(path: str, role: str, tmp_path: Path) -> None:
    browser = browser_of(served(), tokens=read_tokens(token_file(tmp_path, **{role: role})))
    browser.sign_in(f"{role}-token")
    answer = browser.post(path, "/models", {"name": "net", "pin": ""}, files={"file": ("net.onnx", b"x")})
    assert answer.status_code == 403
    assert not any(calls_of(browser, method) for method in ("load", "unload", "apply"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":[' + b"[]," * 400_000 + b"0]}", "has 1200009 bytes, expected 1048576 at the most"),
        (b"[" * 100_000, "configuration 'config.json'"),
        (b"\xff", "configuration 'config.json'"),
    ],
)
def test_what_is_no_configuration_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match="configuration") as caught:
        config_json("config.json", content)
    assert message in str(caught.value)


def test_a_configuration_is_passed_on() -> None:
    assert json.loads(config_json("config.json", b'{"max_batch_size": 8}')) == {"max_batch_size": 8}
    assert json.loads(config_json("config.pbtxt", b"max_batch_size: 8")) == {"max_batch_size": 8}
