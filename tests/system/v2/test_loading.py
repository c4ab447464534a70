"""Answers to clients while the framework loads its models: to come again, and never that there is no such model."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.types import ErrorStatus
from nnhal_client import connect
from nnhal_hosting.supervision import Child
from tests.support.external_data import LOCATION, SIDE, contents, expected, layers
from tests.support.held_device import NAME, held_device
from tests.support.model_server import Devices, arguments, model_server
from tests.support.ports import free_port
from tests.support.processes import WARM, device_process
from tests.support.refusals import INVALID, refusal
from tests.support.repositories import numbers, onnx_file, write
from tests.support.waiting import wait_until

UNAVAILABLE = ErrorStatus.DEVICE_UNAVAILABLE
REQUESTS = 8
"""Connections of their own, so that each front worker gets some."""


@pytest.mark.parametrize("workers", [(), ("--front-workers", "2")], ids=["one process", "two front workers"])
def test_a_model_that_loads_is_asked_for_again_and_is_never_unknown(
    tmp_path: Path, short_path: Path, workers: tuple[str, ...]
) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file()})
    with held_device(short_path) as held:
        held.hold_no_more()
        held.hold_preparations()
        over = Devices({NAME: held.endpoint}, {})
        framework = Endpoint(short_path / "framework", "framework")
        port = free_port()
        options = arguments(framework.directory, tmp_path, over, *workers, "--http-port", str(port))
        child = Child("nnhal_service", options, zygote=WARM)
        try:
            url = f"http://127.0.0.1:{port}/v2/models/tanh"
            preparation = held.next_preparation()
            wait_until(lambda: answers(url), "HTTP is served")
            for _ in range(REQUESTS):
                answer = infer(url)
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1"), answer.text
            preparation.let_go()
            child.wait_until_ready()
            for _ in range(REQUESTS):
                assert infer(url).status_code == 200
        finally:
            child.stop()


def test_a_model_for_a_device_that_is_away_is_told_to_be_unavailable_and_which_device_is_away(
    tmp_path: Path, short_path: Path
) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file()})
    file = tmp_path / "tanh" / "1" / "model.onnx"
    away = r"device 'cpu_ref' does not answer, and may take it when it is back"
    with device_process("ethos_n", short_path) as (_, npu):
        over = Devices({"ethos_n": npu, "cpu_ref": Endpoint(short_path / "away")}, {})
        with (
            model_server(over, tmp_path, "--model-control-mode", "explicit") as served,
            connect(served.endpoint.directory) as native,
        ):
            answer = httpx.post(f"http://{served.http}/v2/repository/models/tanh/load")
            assert answer.status_code == 503, answer.text
            assert away in answer.json()["error"]
            refusal(lambda: native.load(file), UNAVAILABLE, f"no device takes operation 0 .TANH.*{away}")
            refusal(lambda: native.load(file, ["cpu_ref"]), UNAVAILABLE, f"there are no devices; {away}")
            refusal(lambda: native.plan(file), UNAVAILABLE, away)
            refusal(lambda: native.load(file, pins={"op:TANH": "cpu_ref"}), UNAVAILABLE, away)
            refusal(lambda: native.load(file, ["ethos_n"]), INVALID, "no device takes operation 0 .TANH.*ethos_n: ")
            refusal(lambda: native.load(file, pins={"op:TANH": "ethos_n"}), INVALID, "pin 'op:TANH' asks for ethos_n$")


def test_weights_in_files_beside_a_model_are_loaded_with_it(tmp_path: Path, device_processes: Devices) -> None:
    x = np.random.default_rng(9).standard_normal((1, SIDE), np.float32)
    inputs = [{"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.ravel().tolist()}]
    model, values = layers().SerializeToString(), contents()
    beside = write(tmp_path / "models", "beside", {"1/model.onnx": model, f"1/{LOCATION}": values})
    linked = write(tmp_path / "models", "linked", {"1/model.onnx": model}) / "1" / LOCATION
    outside = write(tmp_path, "outside", {LOCATION: values}) / LOCATION
    options = ("--model-control-mode", "explicit", "--load-model", "beside")
    with model_server(device_processes, tmp_path / "models", *options) as served:
        host = f"http://{served.http}/v2"

        def load(name: str, **files: bytes) -> httpx.Response:
            given = {f"file:{file}": base64.b64encode(content).decode() for file, content in files.items()}
            given |= {"config": "{}"} if files else {}
            return httpx.post(f"{host}/repository/models/{name}/load", json={"parameters": given})

        answer = load("given", **{"1/model.onnx": model, f"1/{LOCATION}": values})
        assert answer.status_code == 200, answer.text
        for name in ("beside", "given"):
            answer = httpx.post(f"{host}/models/{name}/infer", json={"inputs": inputs})
            found = np.array(answer.json()["outputs"][0]["data"], np.float32).reshape(1, SIDE)
            np.testing.assert_allclose(found, expected(x), rtol=1e-4, atol=1e-3)
        (beside / "1" / LOCATION).unlink()
        for name, files in (("beside", {}), ("linked", {}), ("given", {"1/model.onnx": model})):
            answer = load(name, **files)
            assert answer.status_code == 400
            words = (
                f"lie in another file, '{LOCATION}', which did not come with the model: expected it in the folder of"
            )
            assert words in answer.json()["error"]
        linked.symlink_to(outside)
        answer = load("linked")
        assert (answer.status_code, answer.json()["error"].endswith("leads out of the repository")) == (400, True)


def answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url).status_code > 0
    return False


def infer(url: str) -> httpx.Response:
    x = numbers()
    given = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.reshape(-1).tolist()}
    return httpx.post(f"{url}/infer", json={"inputs": [given]}, timeout=60)
