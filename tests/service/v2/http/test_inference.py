"""Inference over HTTP: JSON, binary tensors, raw bodies, and refusals."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from typing import Any

import httpx
import numpy as np
import pytest
from structlog.testing import capture_logs

from nnhal.arrays import Array
from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.serving.requests.signature import TensorDescription
from tests.service.v2.http.conftest import MAX_BYTES, Served, serving
from tests.support.plain_words import require_plain
from tests.support.v2 import FakeModel, floats

SIZE = "Inference-Header-Content-Length"
PATH = "/v2/models/echo/infer"


def tensor(name: str, array: Array, **parameters: object) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "datatype": datatype_of(array).name, "shape": list(array.shape)}
    return {**entry, "parameters": parameters} if parameters else entry


def binary(header: dict[str, Any], *arrays: Array) -> tuple[bytes, dict[str, str]]:
    encoded = json.dumps(header).encode()
    return encoded + b"".join(bytes(raw_from_array(array)) for array in arrays), {SIZE: str(len(encoded))}


def answer(response: httpx.Response) -> tuple[dict[str, Any], bytes]:
    """The JSON object of an answer, and the bytes after it."""
    assert response.status_code == 200, response.text
    size = int(response.headers.get(SIZE, len(response.content)))
    return json.loads(response.content[:size]), response.content[size:]


def refused(served: Served, status: int = 400, **arguments: Any) -> str:
    response = served.client.post(PATH, **arguments)
    assert response.status_code == status, response.text
    assert served.model.requests == []
    message = response.json()["error"]
    assert isinstance(message, str)
    return message


@pytest.mark.parametrize(
    ("name", "values"),
    [("INT64", [-(2**63), 2**63 - 1]), ("UINT64", [0, 2**64 - 1]), ("FP64", [0.1, 1e300]), ("INT8", [-128, 127])],
)
def test_the_ends_of_a_range_pass_through_json(served: Served, name: str, values: list[float]) -> None:
    entry = {"name": "x", "datatype": name, "shape": [2], "data": values}
    found, _ = answer(served.client.post(PATH, json={"inputs": [entry]}))
    assert found["outputs"][0]["data"] == values


def test_numbers_that_are_not_finite_are_written_as_javascript_has_them() -> None:
    with serving(FakeModel(lambda _: {"x": floats(float("nan"), float("inf"), 1)})) as served:
        response = served.client.post(PATH, json={"inputs": []})
        assert b"[NaN, Infinity, 1.0]" in response.content


@pytest.mark.parametrize("repeats", [1, 10_000])
def test_numbers_that_are_not_finite_are_read_as_they_are_written(served: Served, repeats: int) -> None:
    given = floats(*[float("nan"), float("inf"), -float("inf"), 2.0**70] * repeats)
    content = json.dumps({"inputs": [{**tensor("x", given), "data": given.tolist()}]})
    found, _ = answer(served.client.post(PATH, content=content))
    np.testing.assert_array_equal(np.array(found["outputs"][0]["data"], np.float32), given)


@pytest.mark.parametrize("values", ["[NaN]", "[Infinity]", "[-Infinity]"])
def test_integers_have_no_numbers_that_are_not_finite(served: Served, values: str) -> None:
    content = f'{{"inputs": [{{"name": "x", "datatype": "INT32", "shape": [1], "data": {values}}}]}}'
    assert "expected elements of INT32" in refused(served, content=content)


@pytest.mark.parametrize("text", [b'["\\ud800", NaN]', b"[NaN,]", b"[NaN", b"nan", b"[NaN\xff]", b'["\xff", NaN]'])
def test_what_is_malformed_beside_them_is_no_json(served: Served, text: bytes) -> None:
    message = refused(served, content=text)
    assert "the request is not JSON" in message
    require_plain(message, text)


def test_json_and_binary_outputs_go_together(served: Served) -> None:
    x, y = floats(1, 2), np.arange(3)
    header = {
        "inputs": [tensor("x", x, binary_data_size=8), {**tensor("y", y), "data": y.tolist()}],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}, {"name": "x"}],
    }
    body, headers = binary(header, x)
    found, rest = answer(served.client.post(PATH, content=body, headers=headers))
    assert [entry["name"] for entry in found["outputs"]] == ["y", "x"]
    assert served.model.released == 1
    assert (found["outputs"][1]["data"], rest) == ([1, 2], y.tobytes())


def test_a_raw_body_of_bytes_is_one_element() -> None:
    text = TensorDescription("x", "BYTES", (-1,))
    with serving(FakeModel(inputs=(text,))) as served:
        raw = raw_from_array(np.array([b"hello"], object))
        _, rest = answer(served.client.post(PATH, content=bytes(raw), headers={SIZE: "0"}))
        assert rest == raw


def test_a_raw_body_for_several_inputs_is_refused() -> None:
    both = (TensorDescription("x", "FP32", (-1,)), TensorDescription("y", "FP32", (-1,)))
    with serving(FakeModel(inputs=both)) as served:
        assert "for a model with one input" in refused(served, content=b"1234", headers={SIZE: "0"})


def test_priority_timeout_and_other_parameters_reach_the_model(served: Served) -> None:
    parameters = {"priority": 2, "timeout": 1500, "mine": 0.5, "sequence_id": 3}
    answer(served.client.post(PATH, json={"inputs": [], "parameters": parameters}))
    request = served.model.requests[0]
    assert (request.priority, request.timeout_ns) == (2, 1_500_000)
    assert request.parameters == {"mine": 0.5, "sequence_id": 3}


def test_the_models_parameters_are_in_the_answer() -> None:
    with serving(FakeModel(parameters={"nnhal_bytes_copied": 0})) as served:
        found, _ = answer(served.client.post(PATH, json={"inputs": []}))
        assert found["parameters"] == {"nnhal_bytes_copied": 0}


def test_a_gzip_body_may_have_several_members(served: Served) -> None:
    array = np.arange(4096, dtype=np.float32)
    header = {"inputs": [tensor("x", array, binary_data_size=array.nbytes)], "parameters": {"binary_data_output": True}}
    body, headers = binary(header, array)
    members = b"".join(gzip.compress(body[start : start + 1000]) for start in range(0, len(body), 1000))
    response = served.client.post(PATH, content=members, headers=headers | {"Content-Encoding": "gzip"})
    assert answer(response)[1] == array.tobytes()


@pytest.mark.parametrize(
    ("encoding", "body", "problem"),
    [
        ("gzip", gzip.compress(b"{}") + b"garbage", "the body is not gzip"),
        ("gzip", gzip.compress(b"{}") + gzip.compress(b" ")[:-1], "the body ends before its gzip does"),
        ("gzip", gzip.compress(b"") * 5000, "the body has more than 4096 members of gzip"),
        ("deflate", zlib.compress(b"{}") + b"garbage", "the body goes on after its deflate ends"),
    ],
    ids=["garbage", "half a member", "too many members", "garbage after deflate"],
)
def test_bytes_after_a_compressed_body_are_refused(served: Served, encoding: str, body: bytes, problem: str) -> None:
    assert problem in refused(served, content=body, headers={"Content-Encoding": encoding})


@pytest.mark.parametrize("weight", ["q=0", "q=0.0", "q=0.000", "Q = 0.00"])
def test_an_encoding_of_weight_zero_is_not_used(served: Served, weight: str) -> None:
    array = np.zeros(4096, np.float32)
    header = {"inputs": [tensor("x", array, binary_data_size=array.nbytes)], "parameters": {"binary_data_output": True}}
    body, headers = binary(header, array)
    response = served.client.post(PATH, content=body, headers=headers | {"Accept-Encoding": f"gzip; {weight}"})
    assert "Content-Encoding" not in response.headers
    assert answer(response)[1] == array.tobytes()


def test_a_body_that_is_too_long_names_the_option(served: Served) -> None:
    message = f"the body is longer than {MAX_BYTES} bytes, which --http-max-input-size allows"
    assert refused(served, content=bytes(MAX_BYTES + 1)) == message
    bomb = gzip.compress(bytes(MAX_BYTES + 1))
    assert refused(served, content=bomb, headers={"Content-Encoding": "gzip"}) == message
    assert refused(served, content=(bytes(MAX_BYTES) for _ in range(2))) == message


ENTRY = {"name": "x", "datatype": "FP32", "shape": [2]}


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ([{**ENTRY, "data": [1]}], "input 'x' for model 'echo': got 1 elements, expected 2 for shape [2]"),
        ([{**ENTRY, "data": ["a", "b"]}], "expected elements of FP32"),
        ([{**ENTRY, "data": [[1], [2, 3]]}], "expected elements of FP32"),
        ([{**ENTRY, "datatype": "INT8", "data": [1, 200]}], "got 200, which INT8 cannot hold"),
        ([{**ENTRY, "datatype": "INT32", "data": [1, 0.5]}], "expected elements of INT32"),
        ([{**ENTRY, "datatype": "UINT64", "data": [1, -1]}], "got -1, which UINT64 cannot hold"),
        ([{**ENTRY, "datatype": "BOOL", "data": [1, 2]}], "expected elements of BOOL"),
        ([{**ENTRY, "datatype": "BYTES", "data": ["a", 1]}], "expected elements of BYTES"),
        ([{**ENTRY, "datatype": "FP16", "data": [1, 2]}], "FP16 has no form in JSON"),
        ([{**ENTRY, "datatype": "FP8", "data": [1, 2]}], "datatype 'FP8' is unknown"),
        ([ENTRY], "expected exactly one of data, binary_data_size and shared_memory_region"),
        ([{**ENTRY, "data": [1, 2], "parameters": {"binary_data_size": 8}}], "expected exactly one of data"),
        ([{**ENTRY, "parameters": {"binary_data_size": 8}}], "8 bytes of binary data, and 0 are left"),
        ([{**ENTRY, "shape": [-1], "data": []}], "'shape' of input 'x' is [-1], expected a list of integers"),
        ([{**ENTRY, "shape": [True], "data": [1]}], "expected a list of integers"),
        ([{**ENTRY, "data": [1, 2]}, {**ENTRY, "data": [1, 2]}], "input 'x' is repeated"),
        ([7], "an input is '7', expected a JSON object"),
        ([{"shape": [1]}], "'name' of an input is missing or null, expected a string"),
        ("x", "'inputs' is 'x', expected a list"),
        (None, "'inputs' is missing or null, expected a list"),
    ],
)
def test_inputs_that_are_wrong_say_what_was_expected(served: Served, inputs: object, problem: str) -> None:
    assert problem in refused(served, json={"inputs": inputs})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"outputs": [{"name": "x"}, {"name": "x"}]}, "one of the outputs is repeated"),
        ({"outputs": [{"name": "x", "parameters": {"binary_data": 1}}]}, "expected true or false"),
        ({"parameters": {"priority": -1}}, "parameter 'priority' is -1, expected 0 or more"),
        ({"parameters": {"timeout": "soon"}}, "parameter 'timeout' is 'soon'"),
        ({"parameters": {"triton_x": 1}}, "names that begin with 'triton_' are reserved"),
        ({"parameters": {"x": [1]}}, "expected a boolean, number or string"),
        ({"parameters": []}, "'parameters' of the request is '[]', expected a JSON object"),
        ({"id": 7}, "'id' of the request is '7', expected a string"),
        ({"outputz": []}, "the request has ['outputz'], expected only id, inputs, outputs, parameters"),
    ],
)
def test_requests_that_are_wrong_say_what_was_expected(served: Served, change: dict[str, object], problem: str) -> None:
    assert problem in refused(served, json={"inputs": [], **change})


@pytest.mark.parametrize(
    ("content", "headers", "problem"),
    [
        (b"{", {}, "the request is not JSON"),
        (b"[]", {}, "the request is '[]', expected a JSON object"),
        (b"{}", {SIZE: "3"}, f"{SIZE} is 3, and the body has 2 bytes"),
        (b"{}", {SIZE: "x"}, f"{SIZE} is 'x', expected a number of bytes"),
        (b'{"inputs":[]}12', {SIZE: "13"}, "2 bytes of binary data belong to no input"),
        (b"123", {SIZE: "0"}, "got 3 bytes, expected 0 for FP32 of shape [0]"),
        (b"{}  {}  {}", {"Content-Encoding": "gzip"}, "the body is not gzip"),
        (gzip.compress(b"{}", mtime=0)[:-4], {"Content-Encoding": "gzip"}, "the body ends before its gzip does"),
        (b"x", {"Content-Encoding": "br"}, "Content-Encoding 'br', expected one of identity, gzip, deflate"),
    ],
)
def test_bodies_that_are_wrong_say_what_was_expected(
    served: Served, content: bytes, headers: dict[str, str], problem: str
) -> None:
    assert problem in refused(served, content=content, headers=headers)


def test_a_model_that_is_not_known(served: Served) -> None:
    response = served.client.post("/v2/models/other/infer", json={"inputs": []})
    assert (response.status_code, response.json()) == (
        404,
        {"error": "Request for unknown model: 'other' is not found"},
    )


def test_an_output_that_is_not_known(served: Served) -> None:
    response = served.client.post(PATH, json={"inputs": [], "outputs": [{"name": "z"}]})
    assert response.json() == {"error": "unexpected inference output 'z' for model 'echo'"}
    assert served.model.released == 1


def test_a_failure_within_is_500_without_its_text() -> None:
    def fail(_: InferenceRequest) -> dict[str, Array]:
        raise RuntimeError("secret")

    with serving(FakeModel(fail)) as served, capture_logs() as logs:
        response = served.client.post(PATH, json={"inputs": []})
        assert response.status_code == 500
        assert "secret" not in response.text
    assert [(entry["event"], entry["path"]) for entry in logs] == [("a request failed", PATH)]


def test_a_client_that_hangs_up_gives_its_request_up() -> None:
    running, cancelled = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        request.cancellation.on_cancel(cancelled.set)
        running.set()
        cancelled.wait(30)
        return {}

    with serving(FakeModel(wait)) as served:
        url = served.client.base_url
        with socket.create_connection((url.host, url.port or 0)) as connection:
            body = b'{"inputs": []}'
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall(head + body)
            assert running.wait(30)
        assert cancelled.wait(30)


def test_tensors_may_lie_in_regions(served: Served) -> None:
    path = "/v2/systemsharedmemory/region/r/register"
    assert served.client.post(path, json={"key": "/k", "offset": 0, "byte_size": 32}).status_code == 200
    _, owner, content = served.memory.regions["r"]
    assert owner.startswith("ipv4:127.0.0.1:")
    content[8:16] = floats(3, 4).tobytes()
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    body = {
        "inputs": [tensor("x", floats(0, 0), **region, shared_memory_offset=8)],
        "outputs": [{"name": "x", "parameters": {**region, "shared_memory_offset": 16}}],
    }
    found, rest = answer(served.client.post(PATH, json=body))
    assert found["outputs"] == [{"name": "x", "datatype": "FP32", "shape": [2]}]
    assert (bytes(content[16:24]), rest) == (floats(3, 4).tobytes(), b"")


def test_regions_with_escaped_keys_are_read_beside_the_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/v2/systemsharedmemory/region/r/register"
    assert served.client.post(path, json={"key": "/k", "offset": 0, "byte_size": 32}).status_code == 200
    readers: list[str] = []
    read = served.memory.read

    def noting(*place: Any) -> bytes:
        readers.append(threading.current_thread().name)
        return read(*place)

    monkeypatch.setattr(served.memory, "read", noting)
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    plain = json.dumps({"inputs": [tensor("x", floats(0, 0), **region)]})
    for body in (plain, plain.replace("region", r"regio\u006e")):
        answer(served.client.post(PATH, content=body))
    assert len(readers) == 2
    assert readers[0].rstrip("0123456789") == readers[1].rstrip("0123456789")


def test_the_model_may_be_named_in_the_body_too(served: Served) -> None:
    body = {"model_name": "echo", "model_version": "1", "inputs": [{**tensor("x", floats(1.5)), "data": [1.5]}]}
    found, _ = answer(served.client.post(PATH, json=body))
    assert found["outputs"][0]["data"] == [1.5]
