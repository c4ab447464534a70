"""The API over snapshots that a test writes: what it reads and does, for whom, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from nnhal.errors import DeadObjectError, HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import supervisor_pb2
from nnhal_hosting.access import read_tokens
from nnhal_pages.operating.resources import RESOURCES
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
    supervised,
)
from tests.support.tokens import token_file

MODELS = [{"name": "digits", "version": version, "state": "READY"} for version in ("1", "2")]


@pytest.fixture
def browser() -> PageBrowser:
    devices = [device_process(name, supervised=supervised(name)) for name in ("npu", "gpu")]
    framework = framework_state(models=[*MODELS, {"name": "other", "state": "UNAVAILABLE"}])
    supervisor = supervisor_pb2.ListProcessesResponse(drivers=["cpu_ref"])
    return PageBrowser(ScriptedCollector(*devices, framework_process(), framework=framework, supervisor=supervisor))


def read(browser: PageBrowser, path: str, status: int = 200, **headers: str) -> Any:
    answer = browser.get(path, {"accept": "application/json", **headers})
    assert answer.status_code == status, answer.text
    return answer.json()


def post(browser: PageBrowser, path: str, told: object = None, **headers: str) -> httpx.Response:
    return asyncio.run(browser._client.post(path, json={} if told is None else told, headers=headers))


def test_a_resource_is_listed_and_one_is_found_by_its_name(browser: PageBrowser) -> None:
    assert [each["name"] for each in read(browser, "/api/v1/devices")["devices"]] == ["npu", "gpu"]
    assert [each["name"] for each in read(browser, "/api/v1/devices/gpu")["devices"]] == ["gpu"]
    assert [each["version"] for each in read(browser, "/api/v1/models/digits")["served"]] == ["1", "2"]
    assert [each["name"] for each in read(browser, "/api/v1/devices?most=1")["devices"]] == ["gpu"]
    assert "is called 'none'" in read(browser, "/api/v1/devices/none", 404)["error"]


@pytest.mark.parametrize(
    "path", ["/devices", "/models", "/sessions", "/clients", "/events", "/runs", "/", "/memory", "/metrics"]
)
def test_a_page_is_had_as_json(browser: PageBrowser, path: str) -> None:
    assert all(isinstance(each, list) for each in read(browser, path).values())
    assert "<html" in browser.page(path)


@pytest.mark.parametrize(
    ("path", "told", "call"),
    [
        ("devices/npu/drain", {"seconds": 3}, ("supervisor", "drain", ("npu", 3.0), {})),
        ("processes/framework/log-level", {"level": "debug"}, ("framework", "set_log_level", ("debug",), {})),
        ("sessions/npu/s1/end", {}, ("npu", "end_session", ("s1",), {})),
        ("models/digits/unload", {}, ("framework", "unload", ("digits",), {})),
        ("recordings", {"model": "all", "count": 3}, ("framework", "record", ("", 3), {})),
        ("faults/npu/clear", {"faults": ["slow"]}, ("npu", "clear_faults", (("slow",),), {})),
        (
            "devices",
            {"driver": "cpu_ref", "options": ["a=1"]},
            ("supervisor", "start_device", ("cpu_ref", "", 1, 1, {"a": "1"}), {}),
        ),
    ],
)
def test_a_verb_does_what_the_page_and_the_command_do(
    browser: PageBrowser, path: str, told: dict[str, object], call: object
) -> None:
    browser.script.answers["supervisor", "drain"] = supervisor_pb2.DrainProcessResponse()
    browser.script.answers["supervisor", "start_device"] = supervised("one")
    answer = post(browser, f"/api/v1/{path}", told)
    assert answer.status_code == 200, answer.text
    assert answer.json()["sentence"]
    assert browser.script.calls == [call]


@pytest.mark.parametrize(
    ("path", "told", "status", "words"),
    [
        ("devices/npu/explode", {}, 405, ""),
        ("devices/none/drain", {}, 404, "there are npu, gpu"),
        ("devices/npu/drain", {"seconds": -1}, 422, "seconds"),
        ("devices/npu/drain", {"minutes": 1}, 422, "minutes"),
        ("devices", {"driver": "remote", "options": ["token_file=x"]}, 422, "names a file"),
        ("sessions/npu/end", {}, 422, "expected PROCESS/ID"),
        ("models/digits/load", {}, 400, "no such model"),
        ("models/digits/unload", {}, 502, "the framework is gone"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(
    browser: PageBrowser, path: str, told: dict[str, object], status: int, words: str
) -> None:
    browser.script.answers["framework", "load"] = HalError(ErrorStatus.INVALID_ARGUMENT, "no such model")
    browser.script.answers["framework", "unload"] = DeadObjectError("the framework is gone")
    answer = post(browser, f"/api/v1/{path}", told)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_a_token_is_enough_and_its_role_counts(tmp_path: Path) -> None:
    collector = ScriptedCollector(device_process())
    collector.contacts.answers["npu", "drain"] = 0
    browser = PageBrowser(collector, read_tokens(token_file(tmp_path, eye="view", boss="admin")))
    assert "needs a token" in read(browser, "/api/v1/devices", 401)["error"]
    assert "not known" in read(browser, "/api/v1/devices", 401, authorization="Bearer wrong")["error"]
    answer = browser.get("/api/v1/devices", {"authorization": "Bearer eye-token"})
    assert answer.status_code == 200 and "set-cookie" not in answer.headers
    assert post(browser, "/api/v1/devices/npu/drain", authorization="Bearer eye-token").status_code == 403
    assert collector.contacts.calls == []
    assert post(browser, "/api/v1/devices/npu/drain", authorization="Bearer boss-token").status_code == 200
    assert "<html" in browser.get("/devices", {"authorization": "Bearer eye-token"}).text


def test_a_page_of_a_stranger_reaches_nothing(browser: PageBrowser) -> None:
    answer = post(browser, "/api/v1/devices/npu/drain", origin="http://elsewhere.example")
    assert answer.status_code == 403
    assert browser.script.calls == []


def test_the_page_of_the_api_and_its_description_have_every_verb(browser: PageBrowser) -> None:
    page, paths = browser.page("/docs"), read(browser, "/api/v1/openapi.json")["paths"]
    for resource in RESOURCES.values():
        assert f"/api/v1/{resource.name}" in page and f"/api/v1/{resource.name}" in paths
        for verb in resource.verbs:
            end = f"/{{name}}/{verb.name}" if verb.names_one else ""
            assert "post" in paths[f"/api/v1/{resource.name}{end}"]
            assert verb.about.partition("'")[0] in page
