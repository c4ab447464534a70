"""Requests of the protocol with a part at an extreme: they are answered in words, and cost little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nnhal.inference import grpc_service_pb2 as wire
from tests.support.extremes import extremes
from tests.support.json_extremes import json_extremes
from tests.support.model_server import Devices, Served, model_server
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.served_models import write_models
from tests.support.v2 import SERVICE, call, floats, raw_request
from tests.support.well_formed import answer

pytestmark = pytest.mark.slow

SPARE = 6 << 30
"""Of addresses: threads and their arenas take most of it."""
GROWTH = 256 << 20
MANY = 3_000
UNARY = {method.name: method for method in SERVICE.methods if not method.client_streaming}
MODEL = "echo_fp32"
TENSOR: dict[str, object] = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 1, 2, 3]}
REGION: dict[str, object] = {"shared_memory_region": "r", "shared_memory_byte_size": 16, "shared_memory_offset": 0}
BODIES: dict[str, tuple[str, object]] = {
    "an inference": (
        f"/v2/models/{MODEL}/infer",
        {
            "id": "1",
            "parameters": {"priority": 1, "sequence_id": 1, "binary_data_output": True},
            "inputs": [TENSOR],
            "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
        },
    ),
    "an inference with shared memory": (
        f"/v2/models/{MODEL}/infer",
        {
            "inputs": [{**TENSOR, "parameters": {"binary_data_size": 16, **REGION}}],
            "outputs": [{"name": "y", "parameters": REGION}],
        },
    ),
    "an inference with classes": (
        "/v2/models/classes/infer",
        {"inputs": [TENSOR], "outputs": [{"name": "y", "parameters": {"classification": 2}}]},
    ),
    "texts": (
        "/v2/models/echo_bytes/infer",
        {"inputs": [{**TENSOR, "datatype": "BYTES", "data": ["a", "b", "c", "d"]}]},
    ),
    "a load": (
        "/v2/repository/models/tanh/load",
        {"parameters": {"config": json.dumps({"max_batch_size": 8}), "file:1/model.onnx": "AAAA"}},
    ),
    "an unload": ("/v2/repository/models/tanh/unload", {"parameters": {"unload_dependents": False}}),
    "an index": ("/v2/repository/index", {"ready": True}),
    "a region": ("/v2/systemsharedmemory/region/r/register", {"key": "/nothing", "offset": 0, "byte_size": 64}),
    "a region of a GPU": (
        "/v2/cudasharedmemory/region/r/register",
        {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64},
    ),
    "traces": (
        f"/v2/models/{MODEL}/trace/setting",
        {"trace_level": ["OFF"], "trace_rate": "1", "trace_count": "-1", "log_frequency": "0"},
    ),
    "the log": ("/v2/logging", {"log_verbose_level": 1, "log_info": True, "log_file": "", "log_format": "default"}),
}


@pytest.fixture(scope="module")
def abused(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework that may not have much memory, and serves at the end."""
    repository = write_models(tmp_path_factory.mktemp("repository"))
    with (
        model_server(device_processes, repository, "--allow-client-shm") as served,
        memory_limit(SPARE, served.pid),
    ):
        before = peak_bytes(served.pid)
        yield served
        with grpc.insecure_channel(served.grpc) as channel:
            assert call(
                channel, "ModelInfer", raw_request("echo_int8", x=floats(1).astype("int8").repeat(4).reshape(1, 4))
            )
        assert peak_bytes(served.pid) - before < GROWTH
        assert "Traceback" not in served.child.said()


def well_formed(method: MethodDescriptor) -> Iterator[Message]:
    if method.name == "ModelInfer":
        yield raw_request(MODEL, x=floats(0, 1, 2, 3).reshape(1, 4))
        typed = wire.ModelInferRequest(model_name=MODEL, id="7")
        typed.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([0, 1, 2, 3])
        typed.outputs.add(name="y")
        typed.parameters["priority"].int64_param = 1
        yield typed
        return
    request: Any = GetMessageClass(method.input_type)()
    for field in method.input_type.fields:
        if field.name in ("name", "model_name"):
            setattr(request, field.name, MODEL)
    match method.name:
        case "RepositoryModelLoad":
            request.parameters["config"].string_param = "{}"
        case "TraceSetting":
            request.settings["trace_rate"].value.append("1000")
        case "LogSettings":
            request.settings["log_verbose_level"].uint32_param = 1
        case "SystemSharedMemoryRegister":
            request.key, request.byte_size = "/nothing", 64
    yield request


@pytest.mark.parametrize("name", UNARY)
def test_a_field_of_grpc_at_an_extreme_is_answered_in_words(abused: Served, name: str) -> None:
    with grpc.insecure_channel(abused.grpc) as channel:
        for request in well_formed(UNARY[name]):
            for extreme in extremes(UNARY[name].input_type, MANY):
                failure = answer(channel, UNARY[name], extreme.applied(request))
                if failure is not None:
                    assert failure.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), extreme
                    require_plain(failure.message, extreme)


@pytest.mark.parametrize(("path", "content"), BODIES.values(), ids=list(BODIES))
def test_a_part_of_json_at_an_extreme_is_answered_in_words(abused: Served, path: str, content: object) -> None:
    with httpx.Client(base_url=f"http://{abused.http}", timeout=60) as client:
        for cause, body in json_extremes(content):
            require_words(client.post(path, content=body), cause)


@pytest.mark.parametrize("segment", ["0", "-1", "1e308", "9" * 5000, "x" * 5000, "%00", "%ff", "%2e%2e", "%2Ftmp"])
def test_a_name_or_a_header_at_an_extreme_is_answered_in_words(abused: Served, segment: str) -> None:
    with httpx.Client(base_url=f"http://{abused.http}", timeout=60) as client:
        for path in (
            f"models/{segment}",
            f"models/tanh/versions/{segment}",
            f"models/tanh/versions/{segment}/stats",
            f"models/{segment}/trace/setting",
            f"systemsharedmemory/region/{segment}/status",
        ):
            require_words(client.get(f"/v2/{path}"), path)
        path, content = BODIES["an inference"]
        headers = {"Inference-Header-Content-Length": segment}
        require_words(client.post(path, content=json.dumps(content), headers=headers), headers)


def require_words(response: httpx.Response, cause: object) -> None:
    assert response.status_code != 500, (response.text[:400], cause)
    if response.status_code >= 400:
        require_plain(response.json()["error"], cause)
