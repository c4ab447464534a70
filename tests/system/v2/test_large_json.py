"""Bodies of JSON that are made to cost a server far more than their bytes: others are served, within its memory."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import forget_peak, peak_bytes

BUDGET = 64 << 20
SPARE = 64 << 20
"""What the server may take beside the budget: threads, instances, and what the allocator keeps."""
SIZE = 24 << 20
INFER = "/v2/models/tanh/infer"
INPUT = b'{"inputs":[{"name":"x","datatype":"%s","shape":[%d],"data":[%s]}]}'
SMALL = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": numbers().ravel().tolist()}]}


@pytest.fixture(scope="module")
def limited(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file()})
    with model_server(device_processes, repository, "--request-memory", str(BUDGET)) as served:
        with httpx.Client(base_url=f"http://{served.http}") as client:
            assert client.post(INFER, json=SMALL).status_code == 200
        yield served


def _repeated(part: bytes) -> bytes:
    count = SIZE // (len(part) + 1)
    return (part + b",") * (count - 1) + part


BODIES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "empty lists": (INFER, lambda: INPUT % (b"FP32", SIZE // 3, _repeated(b"[]"))),
    "deep lists": (INFER, lambda: INPUT % (b"FP32", SIZE // 3, _repeated(b"[" * 50 + b"]" * 50))),
    "objects": (INFER, lambda: INPUT % (b"FP32", SIZE // 3, _repeated(b"{}"))),
    "strings": (INFER, lambda: INPUT % (b"BYTES", SIZE // 5, _repeated(b'"ab"'))),
    "a single string": (INFER, lambda: INPUT % (b"BYTES", 1, b'"' + bytes([240, 159, 152, 128]) * (SIZE // 4) + b'"')),
    "numbers": (INFER, lambda: INPUT % (b"INT64", SIZE // 2, _repeated(b"0"))),
    "inputs": (INFER, lambda: b'{"inputs":[' + _repeated(b"{}") + b"]}"),
    "another member": (INFER, lambda: b'{"inputs":[],"other":{"a":[' + _repeated(b"[]") + b"]}}"),
    "parameters": (INFER, lambda: b'{"inputs":[],"parameters":{' + _repeated(b'"a":[]') + b"}}"),
    "lists of lists": (INFER, lambda: b"[" + _repeated(b"[0]") + b"]"),
    "nothing but brackets": (INFER, lambda: b"[" * SIZE),
    "loading": ("/v2/repository/models/tanh/load", lambda: b'{"parameters":{"config":[' + _repeated(b"[]") + b"]}}"),
    "settings of traces": ("/v2/trace/setting", lambda: b'{"trace_level":[' + _repeated(b'"a"') + b"]}"),
    "settings of the log": ("/v2/logging", lambda: b'{"log_info":{"a":[' + _repeated(b"{}") + b"]}}"),
    "a region": ("/v2/systemsharedmemory/region/r/register", lambda: b'{"key":[' + _repeated(b"[]") + b"]}"),
}
"""Where each body goes, and what makes it: only the process that sends it holds its megabytes, and only then."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_a_body_takes_no_more_memory_than_it_may(limited: Served, name: str) -> None:
    path, made = BODIES[name]
    body = made()
    before = forget_peak(limited.pid)
    with httpx.Client(base_url=f"http://{limited.http}", timeout=120) as client:
        answer = client.post(path, content=body)
        assert answer.status_code in (400, 429), answer.text
        assert len(answer.json()["error"]) < 400
        assert client.post(INFER, json=SMALL).status_code == 200
    assert peak_bytes(limited.pid) - before < BUDGET + SPARE


@pytest.mark.slow
def test_compressed_bodies_take_no_more_memory_than_they_may(limited: Served) -> None:
    before = forget_peak(limited.pid)
    packed = gzip.compress(BODIES["empty lists"][1](), 1)
    headers = {"Content-Encoding": "gzip"}
    with httpx.Client(base_url=f"http://{limited.http}", timeout=120) as client, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post(INFER, content=packed, headers=headers), range(8)))
        assert {answer.status_code for answer in answers} <= {400, 429}
        twice = client.post(INFER, content=gzip.compress(packed), headers={"Content-Encoding": "gzip, gzip"})
        assert "Content-Encoding 'gzip, gzip', expected one of" in twice.json()["error"]
    assert peak_bytes(limited.pid) - before < BUDGET + SPARE


@pytest.mark.slow
def test_others_are_served_while_long_lists_are_parsed(limited: Served) -> None:
    values = np.linspace(-1, 1, 1 << 20, dtype=np.float32)
    tensor = {"name": "x", "datatype": "FP32", "shape": [1 << 17, 8], "data": values.reshape(-1, 8).tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    done, answers = threading.Event(), []

    def ask() -> None:
        with httpx.Client(base_url=f"http://{limited.http}", timeout=120) as client:
            answers.append(client.post(INFER, content=body))
        done.set()

    asking = threading.Thread(target=ask)
    served = 0
    with httpx.Client(base_url=f"http://{limited.http}", timeout=120) as client:
        asking.start()
        while not done.is_set():
            assert client.post(INFER, json=SMALL).status_code == 200
            served += 1
    asking.join()
    (answer,) = answers
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(answer.json()["outputs"][0]["data"], np.tanh(values), atol=1e-5)
    assert served >= 3
