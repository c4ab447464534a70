"""curl: requests that people write by hand."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.model_server import Served
from tests.support.repositories import onnx_file

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
VALUES = [[1.0, 2.0, 3.0, 4.0]]


def curl(served: Served, path: str, *options: str) -> tuple[int, bytes, bytes]:
    """The status, headers and body of an answer."""
    words = ["curl", "--silent", "--show-error", "--max-time", "60", "--dump-header", "-", *options]
    done = subprocess.run([*words, f"http://{served.http}{path}"], capture_output=True, check=True)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


def shown(served: Served, path: str, *options: str) -> Any:
    status, _, body = curl(served, path, *options)
    assert status == 200, body
    return json.loads(body)


def test_what_the_server_is(served: Served) -> None:
    assert shown(served, "/v2/health/live") == {"live": True}
    assert shown(served, "/v2/health/ready") == {"ready": True}
    assert shown(served, "/v2")["name"] == "nnhal"
    assert shown(served, "/v2/models/pair/versions/3/ready") == {"name": "pair", "ready": True}
    assert shown(served, "/v2/models/pair")["versions"] == ["1", "3"]


def test_an_inference_in_json(served: Served) -> None:
    request = {"id": "42", "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": VALUES}]}
    answer = shown(served, "/v2/models/echo_fp32/infer", "--data", json.dumps(request))
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("42", "echo_fp32", "1")
    assert answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 4], "data": VALUES[0]}]


def test_an_inference_with_binary_tensors(served: Served, tmp_path: Path) -> None:
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    body = tmp_path / "body"
    body.write_bytes(header + struct.pack("<4f", *VALUES[0]))
    size = f"Inference-Header-Content-Length: {len(header)}"
    kind = "Content-Type: application/octet-stream"
    status, head, answer = curl(
        served, "/v2/models/echo_fp32/infer", "-H", size, "-H", kind, "--data-binary", f"@{body}"
    )
    assert status == 200
    line = next(row for row in head.splitlines() if row.startswith(b"inference-header-content-length:"))
    json_size = int(line.partition(b":")[2])
    (output,) = json.loads(answer[:json_size])["outputs"]
    assert output["parameters"] == {"binary_data_size": 16}
    assert struct.unpack("<4f", answer[json_size:]) == tuple(VALUES[0])


def test_a_raw_inference(served: Served, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(np.array(VALUES * 3, np.float32).tobytes())
    raw = "Inference-Header-Content-Length: 0"
    status, head, answer = curl(served, "/v2/models/echo_fp32/infer", "-H", raw, "--data-binary", f"@{body}")
    assert status == 200
    assert b"content-type: application/octet-stream" in head
    assert answer.endswith(body.read_bytes())


def test_a_model_is_sent_and_taken_back(served: Served, tmp_path: Path) -> None:
    content = base64.b64encode(onnx_file("Neg")).decode()
    body = tmp_path / "body"
    body.write_text(json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": content}}))
    (served.repository / "by_curl").mkdir(exist_ok=True)
    assert curl(served, "/v2/repository/models/by_curl/load", "--data", f"@{body}")[0] == 200
    ready = shown(served, "/v2/repository/index", "--data", '{"ready": true}')
    assert "by_curl" in {entry["name"] for entry in ready}
    assert curl(served, "/v2/repository/models/by_curl/unload", "--request", "POST")[0] == 200
    assert curl(served, "/v2/models/by_curl/ready")[0] == 400


def test_errors_are_json_with_a_text(served: Served) -> None:
    status, _, body = curl(served, "/v2/models/nobody/infer", "--data", "{")
    assert status in (400, 404)
    assert set(json.loads(body)) == {"error"}
    status, _, body = curl(served, "/v2/nothing")
    assert (status, set(json.loads(body))) == (404, {"error"})
