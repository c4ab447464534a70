"""All routes but inference: their answers, and the clients that they admit."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nnhal.inference.grpc_service_pb2 import ModelStatistics
from nnhal_hosting.access import read_tokens
from nnhal_service.access import Guard, Rate, RateLimits
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.http.statuses import STATUS
from nnhal_service.v2.json_form import message_to_json
from tests.service.v2.http.conftest import MAX_BYTES, Served, serving
from tests.support.tokens import token_file
from tests.support.v2 import FakeModel


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "/",
            {
                "name": "nnhal",
                "is": "a server of models: the Open Inference Protocol V2 (KServe, Triton) over HTTP",
                "paths": ["/v2", "/v2/health/ready", "/v2/models/stats", "/v2/models/MODEL", "/openapi.json"],
            },
        ),
        ("/v2", {"name": "nnhal", "version": "0.1.0", "extensions": ["classification", "parameters"]}),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/echo/ready", {"name": "echo", "ready": True}),
        ("/v2/models/echo/versions/1/ready", {"name": "echo", "ready": True}),
        ("/v2/systemsharedmemory/status", []),
        ("/v2/cudasharedmemory/status", []),
        ("/v2/trace/setting", {"trace_level": ["OFF"]}),
        ("/v2/models/echo/trace/setting", {"trace_level": ["OFF"]}),
        ("/v2/logging", {"log_info": True, "log_verbose_level": 0, "log_format": "default"}),
    ],
)
def test_what_can_be_asked(served: Served, path: str, expected: object) -> None:
    response = served.client.get(path)
    assert (response.status_code, response.json()) == (200, expected)


@pytest.mark.parametrize("path", ["/v2/models/echo", "/v2/models/echo/versions/1"])
def test_the_metadata_of_a_model(served: Served, path: str) -> None:
    tensors = [{"name": "x", "datatype": "FP32", "shape": [-1]}]
    assert served.client.get(path).json() == {
        "name": "echo",
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": tensors,
        "outputs": tensors,
    }


def test_integers_of_64_bits_are_numbers_and_maps_are_objects() -> None:
    message = ModelStatistics(name="m", inference_count=2**53)
    message.response_stats["0"].success.count = 3
    found = message_to_json(message)
    assert found["inference_count"] == 2**53
    assert found["response_stats"]["0"]["success"] == {"count": 3, "ns": 0}


def test_what_is_not_ready_is_400(served: Served) -> None:
    served.repository.is_up = False
    ready, model = served.client.get("/v2/health/ready"), served.client.get("/v2/models/other/ready")
    assert (ready.status_code, ready.json()) == (400, {"ready": False})
    assert (model.status_code, model.json()) == (400, {"name": "other", "ready": False})


def test_the_index_of_the_repository(served: Served) -> None:
    echo = {"name": "echo", "version": "1", "state": "READY", "reason": ""}
    absent = {"name": "absent", "state": "UNAVAILABLE", "reason": "not loaded"}
    assert served.client.post("/v2/repository/index").json() == [echo, absent]
    assert served.client.post("/v2/repository/index", json={"ready": True}).json() == [echo]


def test_loading_and_unloading(served: Served) -> None:
    parameters = {"config": "{}", "file:1/model.onnx": "AAE="}
    assert served.client.post("/v2/repository/models/m/load", json={"parameters": parameters}).status_code == 200
    body = {"parameters": {"unload_dependents": True}}
    assert served.client.post("/v2/repository/models/m/unload", json=body).status_code == 200
    assert served.client.post("/v2/repository/models/m/load").status_code == 200
    assert served.repository.calls == [
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\x00\x01"}),
        ("unload", "m", True),
        ("load", "m", {}),
    ]


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "text/plain"])
def test_a_body_is_json_whatever_the_client_calls_it(served: Served, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    loaded = served.client.post("/v2/repository/models/m/load", content=b'{"parameters": {}}', headers=headers)
    assert (loaded.status_code, served.repository.calls) == (200, [("load", "m", {})])
    index = served.client.post("/v2/repository/index", content=b'{"ready": true}', headers=headers)
    assert [entry["name"] for entry in index.json()] == ["echo"]


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/v2/repository/models/m/load", {"parameters": {"x": "y"}}, "parameter 'x' of loading is unknown"),
        ("/v2/repository/models/m/load", {"parameters": {"config": 1}}, "expected a string"),
        ("/v2/repository/models/m/load", {"parameters": {"file:1/m": "!"}}, "is not base64"),
        ("/v2/repository/models/m/load", {"parameters": []}, "body.parameters: Input should be a valid dictionary"),
        ("/v2/repository/models/m/unload", {"parameters": {"x": True}}, "expected unload_dependents"),
        ("/v2/repository/index", {"ready": "perhaps"}, "body.ready"),
        ("/v2/systemsharedmemory/region/r/register", {"key": "k"}, "body.byte_size: Field required"),
        ("/v2/systemsharedmemory/region/r/register", {"key": "k", "byte_size": -1}, "greater than or equal to 0"),
        ("/v2/cudasharedmemory/region/r/register", {}, "GPUs not supported"),
        ("/v2/trace/setting", {"trace_rate": {}}, "expected a string, strings or null"),
        ("/v2/logging", {"log_info": []}, "expected a boolean, an integer or a string"),
    ],
)
def test_bodies_that_are_wrong_say_what_was_expected(
    served: Served, path: str, body: dict[str, Any], problem: str
) -> None:
    response = served.client.post(path, json=body)
    assert response.status_code == 400
    assert problem in response.json()["error"]


def test_bodies_are_limited_and_may_be_compressed_as_those_of_inferences(served: Served) -> None:
    path, body = "/v2/repository/models/m/load", b'{"parameters": {"config": "{}"}}'
    response = served.client.post(path, content=body.ljust(MAX_BYTES + 1))
    assert response.status_code == 400
    assert response.json()["error"] == f"the body is longer than {MAX_BYTES} bytes, which --http-max-input-size allows"
    assert served.repository.calls == []
    packed = served.client.post(path, content=gzip.compress(body), headers={"Content-Encoding": "gzip"})
    assert (packed.status_code, served.repository.calls) == (200, [("load", "m", {"config": "{}"})])


def test_regions_are_registered_shown_and_forgotten(served: Served) -> None:
    region = {"key": "/k", "offset": 4, "byte_size": 8}
    assert served.client.post("/v2/systemsharedmemory/region/r/register", json=region).status_code == 200
    shown = [{"name": "r", **region}]
    assert served.client.get("/v2/systemsharedmemory/region/r/status").json() == shown
    again = served.client.post("/v2/systemsharedmemory/region/r/register", json=region)
    assert (again.status_code, again.json()) == (400, {"error": "shared memory region 'r' already in manager"})
    assert served.client.post("/v2/systemsharedmemory/unregister").status_code == 200
    assert served.client.get("/v2/systemsharedmemory/status").json() == []


def test_settings_are_changed(served: Served) -> None:
    changes = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": None}
    assert served.client.post("/v2/models/echo/trace/setting", json=changes).status_code == 200
    expected = {"trace_level": ("TIMESTAMPS",), "trace_rate": ("1",), "trace_count": ()}
    assert served.trace.calls == [("echo", expected)]
    assert served.client.post("/v2/logging", json={"log_verbose_level": 2}).json()["log_verbose_level"] == 2


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v3", 404), ("DELETE", "/v2", 405)])
def test_what_there_is_not(served: Served, method: str, path: str, status: int) -> None:
    response = served.client.request(method, path)
    assert response.status_code == status
    assert response.json()["error"].startswith(f"{method} {path}: ")


def test_the_guard_stands_before_every_route(tmp_path: Path) -> None:
    tokens = read_tokens(token_file(tmp_path, eye="view", ci="infer", boss="admin"))
    with serving(FakeModel(), Guard(tokens)) as served:

        def status(method: str, path: str, token: str = "") -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return served.client.request(method, path, headers=headers).status_code

        assert status("GET", "/v2/health/live") == 200
        assert status("GET", "/v2") == 401
        assert status("GET", "/v2", "eye-token") == 200
        assert status("GET", "/v2", "ci-token") == 200
        assert status("GET", "/v2/logging", "eye-token") == 200
        assert status("POST", "/v2/logging", "ci-token") == 403
        assert status("POST", "/v2/repository/index", "eye-token") == 200
        assert status("POST", "/v2/models/echo/infer", "eye-token") == 403
        assert status("POST", "/v2/systemsharedmemory/unregister", "eye-token") == 403
        assert status("POST", "/v2/repository/models/m/unload", "ci-token") == 403
        assert status("POST", "/v2/repository/models/m/unload", "boss-token") == 200
        assert served.client.get("/v2").headers["WWW-Authenticate"] == "Bearer"


def test_a_web_page_of_another_server_is_refused(served: Served) -> None:
    path, host = "/v2/repository/models/m/unload", served.client.base_url.netloc.decode()
    refused = served.client.post(path, headers={"Origin": "https://elsewhere.example"})
    assert refused.status_code == 403
    assert "https://elsewhere.example" in refused.json()["error"]
    assert served.repository.calls == []
    assert served.client.post(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert served.repository.calls == []
    assert served.client.post(path, headers={"Origin": f"http://{host}"}).status_code == 200


def test_a_web_page_whose_name_has_come_to_mean_this_host_is_refused(served: Served) -> None:
    page = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    refused = served.client.post("/v2/repository/models/m/load", headers=page)
    assert refused.status_code == 403
    assert "'evil.example', expected localhost or a loopback address; --allowed-host" in refused.json()["error"]
    assert served.repository.calls == []
    assert served.client.get("/v2/health/live", headers={"Host": "evil.example:8000"}).status_code == 403


def test_the_description_names_every_status_of_an_error(served: Served) -> None:
    described = served.client.get("/openapi.json").json()["paths"]["/v2/models/{model}/infer"]["post"]["responses"]
    statuses = {str(STATUS.get(kind, 400)) for kind in ErrorKind}
    assert statuses | {"405", "408"} <= described.keys()


def test_what_is_unavailable_says_when_to_try_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def loading(*_: object) -> NoReturn:
        raise ServingError(ErrorKind.UNAVAILABLE, "it is being loaded")

    monkeypatch.setattr(served.repository, "model", loading)
    for answer in (served.client.get("/v2/models/echo"), served.client.post("/v2/models/echo/infer", json={})):
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "Retry-After" not in served.client.get("/v2/nothing").headers


def test_a_client_that_names_another_peer_has_no_rate_of_its_own() -> None:
    with serving(FakeModel(), Guard(rates=RateLimits(Rate(0.001, 2)))) as served:
        headers = [{"X-Forwarded-For": f"192.0.2.{number}"} for number in range(4)]
        assert [served.client.get("/v2", headers=each).status_code for each in headers] == [200, 200, 429, 429]
