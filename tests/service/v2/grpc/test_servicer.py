from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.message import Message
from grpc import RpcError, StatusCode

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.serving.requests.signature import TensorDescription
from tests.support.v2 import FakeModel, call
from tests.support.v2_front import Served, serving


def refused(served: Served, name: str, request: Message) -> tuple[StatusCode, str]:
    with pytest.raises(RpcError) as got:
        call(served.channel, name, request)
    return got.value.code(), got.value.details() or ""


def test_a_server_is_live_and_ready(served: Served) -> None:
    assert call(served.channel, "ServerLive", wire.ServerLiveRequest()) == wire.ServerLiveResponse(live=True)
    assert call(served.channel, "ServerReady", wire.ServerReadyRequest()) == wire.ServerReadyResponse(ready=True)


def test_a_server_whose_models_are_not_loaded_is_live_and_not_ready(served: Served) -> None:
    served.repository.is_up = False
    assert call(served.channel, "ServerLive", wire.ServerLiveRequest()) == wire.ServerLiveResponse(live=True)
    assert call(served.channel, "ServerReady", wire.ServerReadyRequest()) == wire.ServerReadyResponse(ready=False)


@pytest.mark.parametrize(("name", "version", "ready"), [("echo", "", True), ("echo", "2", False), ("other", "", False)])
def test_a_model_is_ready_or_not(served: Served, name: str, version: str, ready: bool) -> None:
    response = call(served.channel, "ModelReady", wire.ModelReadyRequest(name=name, version=version))
    assert response == wire.ModelReadyResponse(ready=ready)


def test_the_server_says_what_it_is(served: Served) -> None:
    assert call(served.channel, "ServerMetadata", wire.ServerMetadataRequest()) == wire.ServerMetadataResponse(
        name="nnhal", version="0.1.0", extensions=["classification", "parameters"]
    )


def test_a_model_says_what_it_is(short_path: Path) -> None:
    model = FakeModel(outputs=(TensorDescription("y", "BYTES", (-1, 3)),))
    with serving(short_path, model) as served:
        response = call(served.channel, "ModelMetadata", wire.ModelMetadataRequest(name="echo", version="1"))
    tensor = wire.ModelMetadataResponse.TensorMetadata
    assert response == wire.ModelMetadataResponse(
        name="echo",
        versions=["1"],
        platform="onnx_onnxv1",
        inputs=[tensor(name="x", datatype="FP32", shape=[-1])],
        outputs=[tensor(name="y", datatype="BYTES", shape=[-1, 3])],
    )


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("ModelMetadata", wire.ModelMetadataRequest(name="other")),
        ("ModelConfig", wire.ModelConfigRequest(name="other")),
    ],
)
def test_an_unknown_model_is_not_found(served: Served, name: str, request_: Message) -> None:
    expected = (StatusCode.NOT_FOUND, "Request for unknown model: 'other' is not found")
    assert refused(served, name, request_) == expected


def test_a_model_says_how_it_is_served(short_path: Path) -> None:
    with serving(short_path, FakeModel(max_batch_size=4)) as served:
        response = call(served.channel, "ModelConfig", wire.ModelConfigRequest(name="echo"))
    assert isinstance(response, wire.ModelConfigResponse)
    assert (response.config.name, response.config.max_batch_size) == ("echo", 4)


def test_statistics_are_of_each_model(served: Served) -> None:
    response = call(served.channel, "ModelStatistics", wire.ModelStatisticsRequest())
    assert response == wire.ModelStatisticsResponse(model_stats=[wire.ModelStatistics(name="echo", version="1")])


def test_the_index_lists_models(served: Served) -> None:
    entry = wire.RepositoryIndexResponse.ModelIndex
    ready = entry(name="echo", version="1", state="READY")
    absent = entry(name="absent", state="UNAVAILABLE", reason="not loaded")
    everything = call(served.channel, "RepositoryIndex", wire.RepositoryIndexRequest())
    assert everything == wire.RepositoryIndexResponse(models=[ready, absent])
    only_ready = call(served.channel, "RepositoryIndex", wire.RepositoryIndexRequest(ready=True))
    assert only_ready == wire.RepositoryIndexResponse(models=[ready])


def test_models_are_loaded_with_what_the_request_brings(served: Served) -> None:
    request = wire.RepositoryModelLoadRequest(model_name="echo")
    request.parameters["config"].string_param = "{}"
    request.parameters["file:1/model.onnx"].bytes_param = b"abc"
    call(served.channel, "RepositoryModelLoad", request)
    assert served.repository.calls == [("load", "echo", {"config": "{}", "file:1/model.onnx": b"abc"})]


def test_models_are_unloaded(served: Served) -> None:
    request = wire.RepositoryModelUnloadRequest(model_name="echo")
    call(served.channel, "RepositoryModelUnload", request)
    request.parameters["unload_dependents"].bool_param = True
    call(served.channel, "RepositoryModelUnload", request)
    assert served.repository.calls == [("unload", "echo", False), ("unload", "echo", True)]


@pytest.mark.parametrize(
    ("key", "parameter", "message"),
    [
        ("config", wire.ModelRepositoryParameter(int64_param=1), "expected string_param, got int64_param"),
        ("file:1/model.onnx", wire.ModelRepositoryParameter(), "expected bytes_param, got no value"),
        ("other", wire.ModelRepositoryParameter(bool_param=True), "parameter 'other' of loading is unknown"),
    ],
)
def test_parameters_of_loading_are_checked(
    served: Served, key: str, parameter: wire.ModelRepositoryParameter, message: str
) -> None:
    request = wire.RepositoryModelLoadRequest(model_name="echo", parameters={key: parameter})
    code, details = refused(served, "RepositoryModelLoad", request)
    assert code == StatusCode.INVALID_ARGUMENT
    assert message in details
    assert served.repository.calls == []


@pytest.mark.parametrize(
    "parameters",
    [{"unload_dependents": wire.ModelRepositoryParameter(string_param="yes")}, {"x": wire.ModelRepositoryParameter()}],
)
def test_parameters_of_unloading_are_checked(
    served: Served, parameters: dict[str, wire.ModelRepositoryParameter]
) -> None:
    request = wire.RepositoryModelUnloadRequest(model_name="echo", parameters=parameters)
    assert refused(served, "RepositoryModelUnload", request)[0] == StatusCode.INVALID_ARGUMENT
    assert served.repository.calls == []


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("RepositoryIndex", wire.RepositoryIndexRequest(repository_name="a")),
        ("RepositoryModelLoad", wire.RepositoryModelLoadRequest(repository_name="a", model_name="echo")),
        ("RepositoryModelUnload", wire.RepositoryModelUnloadRequest(repository_name="a", model_name="echo")),
    ],
)
def test_repositories_have_no_names(served: Served, name: str, request_: Message) -> None:
    expected = (StatusCode.UNIMPLEMENTED, "'repository_name' specification is not supported")
    assert refused(served, name, request_) == expected


def test_trace_settings_are_changed_and_told(served: Served) -> None:
    request = wire.TraceSettingRequest(model_name="echo")
    request.settings["trace_level"].value.extend(["TIMESTAMPS", "TENSORS"])
    request.settings["trace_rate"].SetInParent()
    response = call(served.channel, "TraceSetting", request)
    assert isinstance(response, wire.TraceSettingResponse)
    assert list(response.settings["trace_level"].value) == ["OFF"]
    assert served.trace.calls == [("echo", {"trace_level": ("TIMESTAMPS", "TENSORS"), "trace_rate": ()})]


def test_log_settings_are_changed_and_told(served: Served) -> None:
    request = wire.LogSettingsRequest()
    request.settings["log_info"].bool_param = False
    request.settings["log_verbose_level"].uint32_param = 2
    response = call(served.channel, "LogSettings", request)
    value = wire.LogSettingsResponse.SettingValue
    assert response == wire.LogSettingsResponse(
        settings={
            "log_info": value(bool_param=False),
            "log_verbose_level": value(uint32_param=2),
            "log_format": value(string_param="default"),
        }
    )


def test_a_log_setting_needs_a_value(served: Served) -> None:
    request = wire.LogSettingsRequest()
    request.settings["log_info"].SetInParent()
    expected = (StatusCode.INVALID_ARGUMENT, "log setting 'log_info' has no value")
    assert refused(served, "LogSettings", request) == expected


def test_there_is_no_cuda(served: Served) -> None:
    assert refused(served, "CudaSharedMemoryRegister", wire.CudaSharedMemoryRegisterRequest(name="a")) == (
        StatusCode.UNIMPLEMENTED,
        "failed to register CUDA shared memory region: 'a', GPUs not supported",
    )
    assert refused(served, "CudaSharedMemoryStatus", wire.CudaSharedMemoryStatusRequest(name="a")) == (
        StatusCode.NOT_FOUND,
        "Unable to find cuda shared memory region: 'a'",
    )
    status = call(served.channel, "CudaSharedMemoryStatus", wire.CudaSharedMemoryStatusRequest())
    assert status == wire.CudaSharedMemoryStatusResponse()
    ended = call(served.channel, "CudaSharedMemoryUnregister", wire.CudaSharedMemoryUnregisterRequest())
    assert ended == wire.CudaSharedMemoryUnregisterResponse()
