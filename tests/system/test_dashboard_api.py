"""The API of a dashboard's process over a testbed that runs: with tokens, by httpx and by schemathesis."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis

from nnhal_hosting.supervision import Child
from tests.support.described import problems_of
from tests.support.model_server import Devices, Served, devices, model_server
from tests.support.processes import WARM
from tests.support.repositories import onnx_file, write
from tests.support.searching import further
from tests.support.tokens import token_file
from tests.support.waiting import wait_until

NOT_ENDING = "/api/v1/changes"


@pytest.fixture(scope="module")
def own_devices() -> Iterator[Devices]:
    with devices() as started:
        yield started


@pytest.fixture(scope="module")
def framework(own_devices: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("repository")
    write(folder, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(own_devices, folder) as served:
        yield served


@pytest.fixture(scope="module")
def api(framework: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A dashboard of a framework with one model, as an admin reaches it."""
    folder = tmp_path_factory.mktemp("api")
    key = folder / "admin.key"
    key.touch(mode=0o600)
    key.write_text(framework.child.admin_key)
    words = ["--directory", str(folder), "--framework", str(framework.endpoint.directory), "--port", "0"]
    words += ["--admin-key", str(key), "--tokens", str(token_file(folder, boss="admin", eye="view"))]
    child = Child("nnhal_dashboard", words, zygote=WARM)
    try:
        child.wait_until_ready()
        announced = re.compile(r"^dashboard: (\S+)$", re.MULTILINE)
        wait_until(lambda: bool(announced.search(child.said())), "the dashboard tells its address")
        address = announced.findall(child.said())[0]
        with httpx.Client(base_url=address, timeout=None, headers={"authorization": "Bearer boss-token"}) as client:
            wait_until(lambda: len(client.get("/api/v1/devices").json()["devices"]) == 2, "it knows the devices")
            yield client
    finally:
        child.stop()


def test_a_program_reads_and_acts_with_a_token_alone(api: httpx.Client) -> None:
    assert [each["name"] for each in api.get("/api/v1/models").json()["served"]] == ["tanh"]
    (plan,) = api.get("/api/v1/plans").json()["plans"]
    assert plan["plan"]["steps"]
    done = api.post("/api/v1/models/tanh/unload", json={})
    assert (done.status_code, done.json()["sentence"]) == (200, "tanh is unloaded"), done.text
    assert api.get("/api/v1/models/tanh").json()["served"][0]["state"] == "UNAVAILABLE"
    assert api.post("/api/v1/models/tanh/load", json={}).json()["is_whole"]
    assert api.post("/api/v1/models/none/load", json={}).status_code == 400
    eye = {"authorization": "Bearer eye-token"}
    assert api.post("/api/v1/models/tanh/unload", json={}, headers=eye).status_code == 403
    assert api.get("/api/v1/models", headers={"authorization": "Bearer no"}).status_code == 401
    assert api.get("/devices", headers={"accept": "application/json"}).json()["devices"]
    assert not api.cookies


def test_a_slow_run_is_found_by_model_and_time_with_its_trace(api: httpx.Client, framework: Served) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [0.0] * 8}
    assert httpx.post(
        f"http://{framework.http}/v2/models/tanh/infer", json={"inputs": [tensor]}, headers=headers
    ).is_success
    runs = api.get("/api/v1/runs", params={"model": "tanh", "from": "2026-01-01", "sort": "took"}).json()["runs"]
    assert [run["trace_id"] for run in runs if run["trace_id"]] == [trace]
    took = [run["ended_ns"] - run["arrived_ns"] for run in runs]
    assert took == sorted(took, reverse=True)
    assert api.get("/api/v1/runs", params={"until": "2020-01-01"}).json()["runs"] == []
    assert api.get("/api/v1/runs", params={"from": "yesterday"}).status_code == 422
    assert api.get("/api/v1/runs", params={"sort": "size"}).status_code == 422


def test_who_has_done_what_is_told_and_what_undoes_it(api: httpx.Client) -> None:
    assert api.post("/api/v1/models/tanh/unload", json={}).status_code == 200
    told = [each for each in api.get("/api/v1/events").json()["events"] if each["kind"] == "changed"][-1]
    assert (told["subject"], told["before"]) == ("tanh", "READY")
    assert told["who"].startswith("token boss from 127.0.0.1 by the dashboard; nnhal-dashboard, process ")
    address, _, given = told["undo"].partition(" ")
    assert api.post(f"/api/v1/{address}", json=json.loads(given)).json()["sentence"] == "tanh is loaded"


def test_changes_are_told(api: httpx.Client) -> None:
    with api.stream("GET", "/api/v1/changes", params={"resource": "models"}) as stream:
        told = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        assert next(told)["served"][0]["state"] == "READY"
        api.post("/api/v1/models/tanh/unload", json={})
        assert any(each["served"][0]["state"] == "UNAVAILABLE" for each in told)
    api.post("/api/v1/models/tanh/load", json={})


@pytest.mark.search
@pytest.mark.slow
def test_every_operation_answers_as_it_is_described(api: httpx.Client) -> None:
    headers = {"authorization": "Bearer eye-token"}  # nothing is changed by what is made up
    schema: Any = schemathesis.openapi.from_url(str(api.base_url.join("/api/v1/openapi.json")), headers=headers)
    operations = [found.ok() for found in schema.get_all_operations() if found.ok().path != NOT_ENDING]
    assert len(operations) >= 30
    problems = problems_of(operations, further(2), headers)
    assert not problems, problems
    with httpx.Client(base_url=api.base_url, timeout=None) as nobody:
        for operation in operations:
            address = re.sub(r"\{\w+\}", "x", operation.path)
            assert nobody.request(operation.method, address).status_code == 401, operation.label
